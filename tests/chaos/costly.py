"""What costs a worker much to read or to check, within all limits of size, among good requests."""

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.chaos.audit.canonical import owner
from tests.chaos.workload import Publication, Workload

Json = dict[str, Any]

SHARE = 0.004  # of the good requests: as many costly ones, and of each kind one at least
REQUIRED = 2_000  # subschemas of `allOf`
MEMBERS = 15_000  # of an answer to them
ALLOWED = 990  # objects of an `enum`
ZEROS = 14_000  # of an answer to it
TEXT_BYTES = 250_000  # of an answer of plain text
RECORD_BYTES = 500_000  # of a request
PLOT = "a" * 8  # each attempt is answered, by the rule of its form

MANY_REQUIRED, MANY_ALLOWED, LIKE_MARKS, LIKE_SECRETS = "CEFM"
SCHEMAS: dict[str, Json] = {
    MANY_REQUIRED: {"allOf": [{"required": [f"m{n}"]} for n in range(REQUIRED)]},
    MANY_ALLOWED: {
        "type": "object",
        "properties": {"n": {"items": {"enum": [{"a": n} for n in range(ALLOWED)]}}},
        "required": ["n"],
    },
}
ANSWERS: dict[str, str] = {
    MANY_REQUIRED: json.dumps({f"x{n}": 0 for n in range(MEMBERS)}),
    MANY_ALLOWED: json.dumps({"n": [0] * ZEROS}),
    LIKE_MARKS: "a few words",
    LIKE_SECRETS: ("%2d\\u002d=\n&#45;c2stAAAA 73 6b 2d " * (TEXT_BYTES // 16))[:TEXT_BYTES],
}
_EMPTY = "{}," * (RECORD_BYTES // 3)
_LISTS = {
    "messages": '"context":{"instructions":"x","messages":[%s{}]}',
    "facts": '"context":{"instructions":"x","facts":[%s{}]}',
    "prior": '"context":{"instructions":"x"},"prior":[{"attempt":1,"failure":'
    '{"kind":"invalid","problems":[%s{}]}}]',
}


def costly(seed: int, good: int, partitions: int, lasting_s: float) -> Workload:
    """Requests that must end as all others do, and records that must each get their letter."""
    chance = random.Random(f"costly {seed}")
    kinds = [*ANSWERS, *_LISTS]
    count = max(len(kinds), round(good * SHARE))
    published, ids, dead_letters = [], set[str](), 0
    for number in range(count):
        kind, at_s = kinds[number % len(kinds)], chance.uniform(0, lasting_s)
        workflow_id = f"costly{seed}-{number}"
        request_id = f"{seed}-c{number:05}.{kind}.{PLOT}"
        if kind in ANSWERS:
            value = json.dumps(_request(kind, request_id, workflow_id)).encode()
            ids.add(request_id)
        else:
            value = _record(kind, request_id, workflow_id)
            dead_letters += 1
        place = owner(workflow_id, partitions)
        published.append(Publication(at_s, place, workflow_id.encode(), value))
    published.sort(key=lambda publication: publication.at_s)
    return Workload(published, frozenset(ids), dead_letters)


def answers() -> Iterator[tuple[str, str]]:
    """What the provider says, by the form of a request."""
    yield from ANSWERS.items()


def _request(kind: str, request_id: str, workflow_id: str) -> Json:
    marks = [{"name": "f", "value": "0123456789abcdef" * (RECORD_BYTES // 16)}]
    schema = SCHEMAS.get(kind)
    inline = {"kind": "inline", "name": "costly", "wrapped": False, "json_schema": schema}
    return {
        "kind": "request",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "answer_schema": inline if schema else {"kind": "text"},
        "context": {"instructions": "Cost much.", "facts": marks if kind == LIKE_MARKS else []},
        "profile": "profile-0",
        "budget": {"attempts": 2},
        "policy": {"ordering": "workflow"},
    }


def _record(kind: str, request_id: str, workflow_id: str) -> bytes:
    """It names its request, but its many parts are none."""
    rest = _LISTS[kind] % _EMPTY[: RECORD_BYTES // 3 * 3]
    head = json.dumps({"kind": "request", "request_id": request_id, "workflow_id": workflow_id})
    return f'{head[:-1]},"answer_schema":{{"kind":"text"}},{rest}}}'.encode()
