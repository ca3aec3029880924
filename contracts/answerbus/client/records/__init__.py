"""Records read from a broker, such that nothing that stands in a topic can stop its reader."""
