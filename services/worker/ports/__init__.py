"""Interfaces: of the worker to the outside, and of the main path to its lane."""
