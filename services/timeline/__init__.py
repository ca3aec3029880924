"""What the topics tell when they are read together: a workflow's story, an account's chain."""
