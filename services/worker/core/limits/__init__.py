"""How much may be used at once and per minute, and by whom: the arithmetic of limits."""
