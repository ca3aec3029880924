"""Where a chain of attempts does not hold, as data; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from services.operators.records.stored import RecordPosition

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
    "step_number",
    "call",
    "no_step",
    "no_attempt",
]
Fault = tuple[FindingKind, str]  # what is wrong, and what was expected

MEANINGS: Mapping[FindingKind, str] = MappingProxyType(
    {
        "unreadable": "the record cannot be read",
        "changed": "the record is not what was written",
        "twice": "the record stands here twice",
        "link": "the record does not follow on the one before it",
        "number": "the attempts of the request are not numbered 1, 2, 3",
        "spent": "what was charged does not add up",
        "head": "the ledger's last attempt is not the last of the chain",
        "in_flight": "the ledger has a settled call in flight",
        "limit": "more is spent than the budget allows",
        "account": "the account is not that of the workflow, or of the replayed dead letter",
        "not_replayed": "the request says that it is a replay, and no operator's record says so",
        "terminal": "the outcome has no attempt that it came from",
        "no_terminal": "the attempt ended its request, and its event is not there",
        "step_number": "the steps of the run are not numbered 1, 2, 3",
        "call": "the call that ends was not asked for, or has ended before",
        "no_step": "the run had more steps, or ends of calls, than are there",
        "no_attempt": "the step has no attempt that it came from",
    }
)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One fault: of which account, in which event, where, and what should be there instead."""

    kind: FindingKind
    account_id: str | None
    event_id: str | None
    place: RecordPosition
    expected: str
