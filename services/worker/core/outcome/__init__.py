"""What becomes of a call: the decision, and how long to wait before another attempt."""
