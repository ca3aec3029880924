"""The services of answerbus, and the parts that they share."""
