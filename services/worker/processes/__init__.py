"""The command `answerbus worker`, and the processes that it starts."""
