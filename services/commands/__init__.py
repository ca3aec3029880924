"""The commands of `answerbus` that belong to no service: topics, ask, watch, contracts."""
