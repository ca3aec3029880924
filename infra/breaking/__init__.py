"""Names what a change of the public JSON Schemas breaks for those who rely on them."""
