"""The providers that ship, and how a profile becomes the API of its provider."""
