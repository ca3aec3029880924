"""A request that arrived: its verdict on admission, and its ticket."""
