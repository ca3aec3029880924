"""The read model of dead letters, and the requests that a replay would send; pure."""
