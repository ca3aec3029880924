"""From shapes to shapes that a provider can enforce."""
