"""Shapes: the intermediate form of a schema between parsing and writing, with its notes."""
