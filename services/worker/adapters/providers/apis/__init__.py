"""The specification of each provider's API: what is sent, and how replies are read; pure."""
