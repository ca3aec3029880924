"""Who may see and do what: roles, tokens, sessions and addresses; pure."""
