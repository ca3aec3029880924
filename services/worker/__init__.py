"""The worker: Request in, Outcome out."""
