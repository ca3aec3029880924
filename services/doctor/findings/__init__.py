"""What was found of a broker and a machine, and what it means."""
