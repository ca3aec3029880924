"""Drawings of commands in a terminal; pure."""
