"""What the pages know of the topics, folded from records; pure."""
