"""The verifier of evidence packs, for auditors: one file that needs Python alone."""
