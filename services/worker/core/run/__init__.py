"""Runs: what an agent is, what it may do next, what its answers and tools come to; pure."""
