"""Background tasks and time-outs that a stalled event loop or a stray cancellation does not end."""
