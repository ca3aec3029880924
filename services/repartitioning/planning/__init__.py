"""What a move to another number of partitions writes, and where."""
