"""How a call ends: the decision, its events, and how long to wait before another attempt."""
