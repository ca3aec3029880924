"""Unified diffs as text, read strictly."""
