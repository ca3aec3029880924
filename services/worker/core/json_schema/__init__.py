"""JSON Schema documents: where they hold schemas, what their references mean, and copies."""
