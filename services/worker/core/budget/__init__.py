"""Accounts, their spending, and its audit records."""
