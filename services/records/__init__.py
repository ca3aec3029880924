"""What stands in the topics, read from the outside: by commands, operators and their pages."""
