"""The default waiting time of commands for an outcome: that of the client, in words."""

WAIT_S_DEFAULT = 120.0
RUN_WAIT_DEFAULT = "until 60 s after its deadline"  # it may wait for tools and for people
