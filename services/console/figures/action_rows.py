"""Operators' actions as rows of one table: dead letters, approvals, cancellations, skips; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from services.console.state.control_actions import ControlAction
from services.console.views.links import address
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.operator_actions import OperatorAction
from services.text.counted import count_text

_ENDINGS: Mapping[str, str] = MappingProxyType(
    {"answered": "answered", "refused": "refused", "dead": "dead again", "pending": "pending"}
)
_EFFECTS: Mapping[str, str] = MappingProxyType(
    {
        "remembered": "remembered until its request is read",
        "nothing": "no effect: closed, or decided before",
        "cancelled": "done",
        "approved": "done",
        "denied": "done",
        "answered": "done",
        "invalid": "did not fit: the question is open",
        "skipped": "done",
    }
)
_UNREAD = "no worker has read it yet"


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action, its author, subject and effect; `is_bad` marks an effect to look at."""

    at_ms: int
    by: str
    what: str
    subject: str
    href: str | None
    reason: str
    effect: str
    is_bad: bool


def newest_first(
    dead_letters: Iterable[OperatorAction], controls: Iterable[ControlAction]
) -> Sequence[OperatorAction | ControlAction]:
    """In one order; rows are made of those alone that a page shows."""
    return sorted((*dead_letters, *controls), key=lambda action: -_at_ms(action))


def action_row(action: OperatorAction | ControlAction) -> ActionRow:
    if isinstance(action, ControlAction):
        return _of_control(action)
    return _of_dead_letters(action)


def _at_ms(action: OperatorAction | ControlAction) -> int:
    return action.at_ms if isinstance(action, ControlAction) else action.last_ms


def _of_dead_letters(action: OperatorAction) -> ActionRow:
    endings = [
        f"{action.outcomes[ending]:,} {words}"
        for ending, words in _ENDINGS.items()
        if action.outcomes[ending]
    ]
    return ActionRow(
        action.last_ms,
        action.by,
        action.kind,
        count_text(action.dead_letters, "dead letter"),
        _dead_letters_href(action),
        action.reason,
        ", ".join(endings) or "done",
        bool(action.outcomes["dead"]),
    )


def _of_control(action: ControlAction) -> ActionRow:
    href = address("/workflow", [("id", action.workflow_id)]) if action.workflow_id else None
    effect = _UNREAD if action.effect is None else _EFFECTS.get(action.effect, action.effect)
    is_bad = action.effect in {None, "nothing"}
    return ActionRow(
        action.at_ms,
        action.by,
        action.kind,
        action.subject,
        href,
        action.reason,
        effect,
        is_bad,
    )


def _dead_letters_href(action: OperatorAction) -> str:
    """The dead letter, or all of that status; their times do not say when they were replayed."""
    if action.dead_letters == 1:
        return address("/letters/one", [("id", action.sample.text)])
    return address(
        "/letters/list", [("status", action.kind), ("until", as_text(action.last_ms + 1))]
    )
