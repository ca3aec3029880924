"""The arithmetic of limits: concurrency, rates per minute, and fair shares."""
