"""The schema that an answer must satisfy: resolved, and its validator."""
