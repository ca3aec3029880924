"""Looks at a whole set-up from outside, and says what to change."""
