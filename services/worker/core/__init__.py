"""The pure core of the worker: no I/O, no clock, no chance."""
