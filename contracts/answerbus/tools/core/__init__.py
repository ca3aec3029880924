"""What a tool server decides: which calls it takes, what it answers, what it has done; pure."""
