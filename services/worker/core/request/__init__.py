"""A request that arrived: its verdict on admission, and what its lane holds of it."""
