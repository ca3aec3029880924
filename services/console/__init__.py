"""The operators' console: pages about what stands in the topics, and what to do about it."""
