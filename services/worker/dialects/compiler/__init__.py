"""The compiler of all dialects: from a resolved schema to a wire schema and back."""
