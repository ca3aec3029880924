"""Accounts, what they spent, and the audit records of that."""
