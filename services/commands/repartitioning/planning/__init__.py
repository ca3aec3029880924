"""The plan of a move to another number of partitions: which records go where."""
