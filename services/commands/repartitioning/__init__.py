"""A deployment brought to another number of partitions, while no worker runs."""
