"""The operators' part, below the command line and the console: reading, and actions."""
