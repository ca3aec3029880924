"""The topics on a broker: their state, and the steps to their declared form."""
