"""Bounds the cost of a schema or a value before anything is compiled or checked."""
