"""The ids of tool calls: `<request_id>.call.<attempt>.<place>.<mark of workflow and request>`.

An id is an idempotency key of tool servers, so that no two workflows may share one. Runs that began
before ids had a mark keep theirs, which end with the place.
"""

import re

from answerbus.request_key import RequestKey

_SEPARATOR = ".call."
_PARTS = re.compile(r"(?P<name>.*\.call\.(?P<attempt>\d{1,9})\.\d+)(\.[a-z2-7]{16})?", re.ASCII)


def call_id(request: RequestKey, attempt: int, place: int) -> str:
    """Of the call at a place of the answer to an attempt."""
    return f"{request.request_id}{_SEPARATOR}{attempt}.{place}.{request.mark}"


def request_of_call(call: str) -> str:
    """The id of the request whose run made the call; empty for a call that no run made."""
    return call.rpartition(_SEPARATOR)[0]


def call_name(call: str) -> str:
    """The id without its mark: one of the workflow's own names, and of no other's."""
    found = _PARTS.fullmatch(call)
    return found["name"] if found else call


def attempt_of_call(call: str) -> int | None:
    """The attempt whose answer asked for the call; None for a call that no run made."""
    found = _PARTS.fullmatch(call)
    return int(found["attempt"]) if found else None
