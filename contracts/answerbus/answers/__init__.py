"""The answer contracts that ship with answerbus, one module each."""
