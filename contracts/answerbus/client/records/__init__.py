"""Reads records from a broker; no content of a topic can stop the reader."""
