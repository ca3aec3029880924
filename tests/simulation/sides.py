"""Histories in which two workflows use each id: each side is audited as if it were alone."""

import json
from collections.abc import Sequence

from answerbus.topics import DEAD_LETTERS, LEDGER, REQUESTS
from tests.chaos.audit.record import Record

CLOSED_PLACE = b"closed:@"
SIDES = ("a", "b")  # the last letter of a workflow, behind a dot


def named(workflow: str, number: int) -> str:
    """The workflow of the request of that number: those of one id take turns."""
    return f"{workflow}.{SIDES[number % len(SIDES)]}"


def side_of(workflow: str) -> str:
    """What names no side is of the first."""
    return SIDES[1] if workflow.endswith(f".{SIDES[1]}") else SIDES[0]


def of_side(records: Sequence[Record], side: str) -> list[Record]:
    """The records of a side, and those of neither."""
    asked = {
        (str(record.partition), str(record.offset)): _workflow_of(record)
        for record in records
        if record.topic == REQUESTS.name
    }
    found = []
    for record in records:
        workflow = _workflow_of(record)
        if workflow is None and (place := _closed_place(record)) is not None:
            workflow = asked.get(place)
        if workflow is None or side_of(workflow) == side:
            found.append(record)
    return found


def _closed_place(record: Record) -> tuple[str, str] | None:
    """The partition and offset of a record that the ledger has closed by its place."""
    if record.topic != LEDGER.name or not (record.key or b"").startswith(CLOSED_PLACE):
        return None
    _, partition, offset = (record.key or b"").decode().rsplit("-", 2)
    return partition, offset


def _workflow_of(record: Record) -> str | None:
    """None for what is of a lane, a chunk or a place; of unreadable requests it is the first's."""
    if record.value is None:
        if record.topic == REQUESTS.name:
            return ""
        _, is_scoped, workflow = (record.key or b"").decode(errors="replace").partition("@")
        return workflow if is_scoped and _closed_place(record) is None else None
    try:
        body = json.loads(record.value)
    except ValueError:
        return ""
    if not isinstance(body, dict):
        return ""
    found = body.get("workflow_id")
    if found is None and record.topic in {REQUESTS.name, DEAD_LETTERS.name}:
        return ""
    return None if found is None else str(found)
