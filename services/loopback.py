"""The loopback names of a machine."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
