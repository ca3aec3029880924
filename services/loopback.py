"""The names by which a machine reaches itself, and no other machine does."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
