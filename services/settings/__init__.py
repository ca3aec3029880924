"""The settings file: its sections, the secrets it names, and what is loaded by it."""
