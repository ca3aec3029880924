"""Which topics a broker should have, and what must be done for that."""
