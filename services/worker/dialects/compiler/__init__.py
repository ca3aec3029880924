"""From a resolved schema to a wire schema and back: what all dialects are compiled by."""
