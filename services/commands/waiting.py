"""The default waiting time of commands for an outcome."""

WAIT_S_DEFAULT = 120.0
RUN_WAIT_S_DEFAULT = 600.0  # a run asks a model several times, and waits for tools
