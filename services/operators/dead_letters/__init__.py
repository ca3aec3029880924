"""The read model of dead letters, and what a replay would send; pure."""
