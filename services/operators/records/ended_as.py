"""How a request ended, by its last attempt: attempts are kept for longer than results; pure."""

from typing import Literal, assert_never

from answerbus.attempt import Attempt

Ended = Literal["result", "unvalidated_result", "refusal", "dead_letter"]


def ended_as(last: Attempt | None) -> Ended | None:
    """None while it is open, and where no attempt ended it."""
    if last is None:
        return None
    match last.outcome:
        case "result" | "unvalidated_result" | "refusal" | "dead_letter" as ended:
            return ended
        case "retry" | "unknown" | "released" | "step":
            return None
        case other:
            assert_never(other)
