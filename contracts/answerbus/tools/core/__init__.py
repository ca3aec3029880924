"""The decisions of a tool server: accepted calls, answers, and calls already done; pure."""
