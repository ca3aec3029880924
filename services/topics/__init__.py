"""The topics on a broker: what is there, and what must be done so that they are as they should."""
