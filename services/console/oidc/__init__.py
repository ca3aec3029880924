"""Sign-in at an issuer of OpenID Connect: its addresses, its keys, and the claims of its tokens."""
