"""By which names a machine reaches itself, and nobody else reaches it."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
