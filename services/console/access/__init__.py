"""Access control: roles, tokens, sessions and addresses; pure."""
