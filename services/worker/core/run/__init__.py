"""Runs: agents, their possible next steps, and the effects of answers and tool results; pure."""
