"""Background tasks and time-outs that survive stalls of the event loop and stray cancellations."""
