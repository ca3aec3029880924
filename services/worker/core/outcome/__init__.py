"""What becomes of a call: the call as the case, the decision, its events, and the back-off."""
