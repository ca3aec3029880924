"""The commands of `answerbus`, but for those of worker, console and tools."""
