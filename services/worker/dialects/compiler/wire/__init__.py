"""From shapes to a wire schema, and from an answer on the wire back to a value."""
