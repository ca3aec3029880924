"""Whether a worker goes on, what is stuck on what, and the gauges of the moment."""
