"""The operators' actions on dead letters, one by one: who, why, and the effect; pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.dead_letter_key import DeadLetterKey

GAP_MS = 10 * 60_000  # between two dead letters of one action; beyond that it is another one

ActionKind = Literal["replayed", "dismissed", "reopened"]


@dataclass(slots=True)
class OperatorAction:
    """Dead letters that one person treated alike for one reason, soon after each other.

    `outcomes` counts the outcomes of the replays; times are in ms since 1970.
    """

    kind: ActionKind
    by: str
    reason: str
    first_ms: int
    last_ms: int
    sample: DeadLetterKey
    dead_letters: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def operator_actions(index: DeadLetterIndex) -> list[OperatorAction]:
    """Newest first."""
    found = list[OperatorAction]()
    current = dict[tuple[ActionKind, str, str], OperatorAction]()
    for at_ms, key, dead_letter in sorted(_actions(index), key=lambda entry: entry[0]):
        action = current.get(key)
        if action is None or at_ms - action.last_ms > GAP_MS:
            action = current[key] = OperatorAction(*key, at_ms, at_ms, dead_letter.key)
            found.append(action)
        action.dead_letters += 1
        action.last_ms = at_ms
        outcome = index.replay_outcome(dead_letter) if key[0] == "replayed" else None
        if outcome is not None:
            action.outcomes[outcome.ending] += 1
    return sorted(found, key=lambda action: -action.last_ms)


def _actions(
    dead_letters: Iterable[DeadLetterRow],
) -> Iterator[tuple[int, tuple[ActionKind, str, str], DeadLetterRow]]:
    for dead_letter in dead_letters:
        if replay := dead_letter.replay:
            yield replay.at_ms, ("replayed", replay.by, replay.reason), dead_letter
        for one in dead_letter.dismissals:
            kind: ActionKind = "reopened" if one.undone else "dismissed"
            yield one.at_ms, (kind, one.by, one.reason), dead_letter
