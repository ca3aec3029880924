"""From a resolved schema to shapes."""
