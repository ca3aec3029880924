"""Texts and JSON values: escaped for a screen, and digested; pure."""
