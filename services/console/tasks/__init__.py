"""Background tasks of the console: reading topics, polling, replays."""
