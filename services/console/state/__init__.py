"""The console's knowledge of the topics, folded from records; pure."""
