"""How long commands wait for an outcome, unless they are told."""

WAIT_S_DEFAULT = 120.0
RUN_WAIT_S_DEFAULT = 600.0  # a run asks a model several times, and waits for tools
