"""Addresses of lists of dead letters; pure."""

from typing import get_args

from answerbus.failure import Failure
from services.console.state.board import NONE
from services.console.views.links import address

FAILURES = frozenset(kind.model_fields["kind"].default for kind in get_args(get_args(Failure)[0]))
_SPAN_NAMES = {"from": "since", "to": "until"}  # as the pages of dead letters call them

Span = tuple[tuple[str, str], ...]


def dead_letters(span: Span, **where: str) -> str:
    """The list of those that died in that time and have these values, or none, in every state."""
    values = [("none", key) if value == NONE else (key, value) for key, value in where.items()]
    times = [(_SPAN_NAMES[name], text) for name, text in span if name in _SPAN_NAMES]
    return address("/letters/list", [*values, *times, ("status", "any")])


def letters_of_problem(span: Span, problem: str, **where: str) -> str:
    """Those of a failure, or of a cause where there was none."""
    key = "failure" if problem in FAILURES else "cause"
    return dead_letters(span, **{**where, key: problem})
