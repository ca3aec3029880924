"""The services of answerbus; each folder is one, and none imports another's inside."""
