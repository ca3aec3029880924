"""The command `answerbus replay`: dead letters looked at, sent again, dismissed, repaired."""
