"""The contracts of answerbus: typed events, answers and topics, for anyone who speaks with it."""
