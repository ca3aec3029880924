"""How much of a provider may be used at once, per minute, and when it is left alone."""
