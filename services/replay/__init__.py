"""The command `answerbus replay`: dead letters looked at, sent again, put aside, repaired."""
