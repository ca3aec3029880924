"""Records of any topic as operators see them; pure."""
