"""The exception of `outcome.unwrap()` where there is no answer; its text gives the remedy.

OutcomeError              `outcome` is the event itself
    RefusalError          the model or its provider declined
    UnvalidatedError      the answer never became valid
    DeadLetterError       the request could not be answered
"""

from typing import Any


class OutcomeError(Exception):
    """An outcome holds no answer, and one was asked of it."""

    outcome: Any
