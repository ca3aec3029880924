"""Who a profile is for its provider, where that is an identity and no key."""
