"""The operators' console: pages about the topics' content, and actions on it."""
