"""Names the changes of public JSON Schemas that break existing clients."""
