"""Failures and causes in words, as a screen may show them: see answerbus.explain; pure."""

from answerbus import explain
from answerbus.cause import Cause
from answerbus.dead_letter import DeadLetter
from answerbus.failure import Failure, Problem
from services.text.escaping import plain


def problem_text(problem: Problem) -> str:
    """Where, what is there, what would have been right, and the rule."""
    return plain(explain.problem_text(problem))


def failure_text(failure: Failure) -> str:
    """Why an attempt gave no result."""
    return plain(explain.failure_text(failure))


def written_text(failure: Failure) -> str:
    """What a model wrote where reading it stopped, for those who may see answers; may be empty."""
    return plain(explain.written_text(failure))


def died_text(dead_letter: DeadLetter) -> str:
    """Why there is no answer: the failures of the attempts, then how the request ended."""
    return plain(
        explain.died_text(dead_letter.cause, [prior.failure for prior in dead_letter.prior])
    )


def cause_text(cause: Cause) -> str:
    """Why a request ended as a dead letter."""
    return plain(explain.cause_text(cause))


def remedy(cause: Cause, *, of_run: bool = False) -> str:
    """The next step for the asking service or an operator."""
    return plain(explain.remedy(cause, of_run=of_run))
