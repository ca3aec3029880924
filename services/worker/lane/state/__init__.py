"""The state of a lane and its state machine: no I/O."""
