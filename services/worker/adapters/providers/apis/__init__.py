"""The specification of each provider's API: its requests, and the reading of its replies; pure."""
