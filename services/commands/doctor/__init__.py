"""Checks a whole set-up from outside, and names the remedies."""
