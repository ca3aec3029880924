"""What runs beside the pages: reading the topics, polling, replays."""
