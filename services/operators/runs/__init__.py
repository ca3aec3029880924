"""Runs of agents as people see them: a tree of steps, calls and children; pure."""
