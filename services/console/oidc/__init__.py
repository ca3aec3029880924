"""Signing in at an issuer of OpenID Connect: its addresses, its keys, and what its tokens say."""
