"""Records that services write for each other: private topics, forwarded copies, proofs; pure."""
