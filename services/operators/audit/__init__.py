"""The attempts of an account as a chain, compared with its ledger and its outcomes; pure."""
