"""Budgets that workflows share by a label: rules, the leases of lanes, and their home."""
