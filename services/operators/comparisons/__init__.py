"""Profiles compared on questions that were asked before; pure."""
