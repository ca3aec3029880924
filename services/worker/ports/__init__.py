"""What the worker needs from outside, and the main path from its lane."""
