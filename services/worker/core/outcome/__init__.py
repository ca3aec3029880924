"""What becomes of a call: the decision, its events, and how long to wait before another attempt."""
