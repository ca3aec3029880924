"""The remedy for a dead letter, by its failure: three equal answers need no larger budget."""

from collections.abc import Sequence
from typing import assert_never

from answerbus import failure as failures
from answerbus.dead_letter import DeadLetter
from answerbus.failure import Failure
from services.operators.dead_letters.why import ENDINGS
from services.operators.explain import remedy


def remedy_of(dead_letter: DeadLetter) -> str:
    """In a sentence or two; of the cause itself where trying did not simply end."""
    failures = [prior.failure for prior in dead_letter.prior]
    last = getattr(dead_letter.cause, "failure", None) or (failures[-1] if failures else None)
    if last is None or dead_letter.cause.kind not in ENDINGS:
        return remedy(dead_letter.cause, of_run=dead_letter.run is not None)
    return _of_failure(last, _equal_at_the_end(failures))


def _of_failure(failure: Failure, equal: int) -> str:
    match failure:
        case failures.Invalid():
            return _of_invalid(equal)
        case failures.Malformed():
            return (
                "The model does not keep to JSON: ask a profile whose provider enforces schemas, "
                "or one with another `dialect`."
            )
        case failures.Truncated():
            return (
                "More attempts are cut as well: raise `max_output_tokens` of the profile, or ask "
                "for less at once."
            )
        case failures.Refused():
            return "Reword the instructions, or ask another profile."
        case failures.Throttled():
            return "Replay it once the provider has room, or on another profile."
        case failures.Unavailable() if failure.is_reply:
            return (
                "The model wrote a tool call or thoughts alone, or another API answered: reword "
                "the instructions, ask another profile, or correct `base_url`."
            )
        case failures.Unavailable():
            return "Replay it once the provider answers again, or on another profile."
        case failures.TimedOut():
            return (
                "Replay it once the provider answers in time, or on another profile; raise "
                "`timeout_s` if such answers take long."
            )
        case failures.Unknown():
            return "Look in the workers' logs for why they ended, then replay it."
        case other:
            assert_never(other)


def _of_invalid(equal: int) -> str:
    if equal > 1:
        return (
            f"The last {equal} attempts failed at the same place, so more of the same will hardly "
            "help: edit the request, or ask another profile."
        )
    return "Look at the problems: edit the request, ask another profile, or allow more attempts."


def _equal_at_the_end(failures: Sequence[Failure]) -> int:
    """How many of the last attempts failed by the same first problem."""
    signs = [_sign(failure) for failure in reversed(failures)]
    return next((n for n, sign in enumerate(signs) if sign != signs[0]), len(signs))


def _sign(failure: Failure) -> tuple[str, ...]:
    first = failure.problems[:1] if isinstance(failure, failures.Invalid) else ()
    return failure.kind, *(part for problem in first for part in (problem.path, problem.code))
