"""Requests of two workflows under one id: neither may have the other's outcome, or be refused."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.chaos.audit.canonical import NotStrictError, owner, read_json
from tests.chaos.audit.history import History, Violation
from tests.chaos.audit.record import Record
from tests.chaos.traffic import full_name
from tests.chaos.workload import Publication, Workload

Json = dict[str, Any]

PREFIX = "namesake"
PAIRS = 12
COPIED = 3  # pairs whose first request comes twice
TRIES_MAX = 10_000
_THEIRS = re.compile(rf"{PREFIX}|\d-n\d{{3}}\.")


def namesakes(seed: int, partitions: int, lasting_s: float) -> Workload:
    """Pairs of requests with equal ids: half of them of one partition, half of two."""
    chance = random.Random(f"namesakes {seed}")
    published, names = [], set[str]()
    for pair in range(PAIRS):
        mine, other = _workflows(seed, pair, partitions, share_partition=pair % 2 == 0)
        for workflow_id in (mine, other, *([mine] if pair < COPIED else [])):
            body = _request(f"{seed}-n{pair:03}.t.aaaaaaaa", workflow_id)
            names.add(full_name(body))
            value = json.dumps(body).encode()
            place = owner(workflow_id, partitions)
            at_s = chance.uniform(0, lasting_s)
            published.append(Publication(at_s, place, workflow_id.encode(), value))
    return Workload(sorted(published, key=lambda one: one.at_s), frozenset(names), 0)


def _workflows(seed: int, pair: int, partitions: int, *, share_partition: bool) -> tuple[str, str]:
    mine = f"{PREFIX}{seed}-{pair}-0"
    for number in range(1, TRIES_MAX):
        other = f"{PREFIX}{seed}-{pair}-{number}"
        if (owner(mine, partitions) == owner(other, partitions)) == share_partition:
            return mine, other
    raise ValueError(f"no two workflows of {partitions} partitions are as they should be")


def _request(request_id: str, workflow_id: str) -> Json:
    return {
        "kind": "request",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "answer_schema": {"kind": "text"},
        "context": {"instructions": f"Answer {workflow_id}."},
        "profile": "profile-1",
    }


def without(history: History) -> History:
    """The history of all others: the auditor goes by the ids of requests alone."""
    records = [record for record in history.records if not _is_theirs(record)]
    calls = [call for call in history.calls if not _THEIRS.search(call.request_id)]
    return replace(history, records=records, calls=calls)


def _is_theirs(record: Record) -> bool:
    if record.value is None:
        return bool(_THEIRS.search((record.key or b"").decode(errors="replace")))
    if PREFIX.encode() not in record.value:
        return False
    try:
        body = read_json(record.value)
    except NotStrictError:
        return False
    return isinstance(body, dict) and str(body.get("workflow_id")).startswith(PREFIX)


def check(history: History) -> Iterator[Violation]:
    """Each has one result under its own workflow, also where it was published twice."""
    asked = {full_name(one.body) for one in history.arrivals if one.request_id is not None}
    topics = ("results", "refusals", "dead-letters")
    events = [event.body for topic in topics for event in history.events[topic]]
    ended = Counter(full_name(body) for body in events)
    results = Counter(full_name(body) for body in events if body["kind"] == "result")
    for name in sorted(name for name in asked | ended.keys() if name.startswith(PREFIX)):
        if not ended[name] == results[name] == 1 or name not in asked:
            text = f"{results[name]} results, {ended[name]} ends"
            yield Violation("G2", name, text)
