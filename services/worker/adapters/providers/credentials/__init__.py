"""Who a profile is for its provider, where that is an identity, not a key."""
