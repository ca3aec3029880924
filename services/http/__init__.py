"""The HTTP server of our own services, and its certificate."""
