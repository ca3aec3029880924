"""Shapes: what a schema is between being parsed and being written, and what is noted of it."""
