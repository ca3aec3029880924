"""Where a chain of attempts does not hold, as data; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from services.operators.records.stored import Place

FindingKind = Literal[
    "unreadable",
    "changed",
    "twice",
    "link",
    "number",
    "spent",
    "head",
    "in_flight",
    "limit",
    "account",
    "not_replayed",
    "terminal",
    "no_terminal",
]

MEANINGS: Mapping[FindingKind, str] = MappingProxyType(
    {
        "unreadable": "the record is no attempt",
        "changed": "the record is not what was written",
        "twice": "the attempt stands here twice",
        "link": "the attempt does not follow on the one before it",
        "number": "the attempts of the request are not numbered 1, 2, 3",
        "spent": "what was charged does not add up",
        "head": "the ledger's last attempt is not in the chain",
        "in_flight": "the ledger has a settled call in flight",
        "limit": "more is spent than the budget allows",
        "account": "the account is not that of the workflow, or of the letter that was replayed",
        "not_replayed": "the request says that it is a replay, and no operator's record says so",
        "terminal": "the outcome has no attempt that it came from",
        "no_terminal": "the attempt ended its request, and its event is not there",
    }
)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One fault: of which account, in which event, where, and what should be there instead."""

    kind: FindingKind
    account_id: str | None
    event_id: str | None
    place: Place
    expected: str
