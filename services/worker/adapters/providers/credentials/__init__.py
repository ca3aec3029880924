"""The identity of a profile at its provider, where it has no key."""
