"""JSON Schema documents: the places of schemas, the targets of references, and copies."""
