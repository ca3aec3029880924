"""Turns folded state into the pictures and tables of the pages; pure."""
