"""What upstream publishes in a run: requests, copies, conflicts, and other records."""

import json
import math
import random
import zlib
from dataclasses import dataclass
from typing import Any

from tests.chaos import script
from tests.chaos.audit.canonical import owner

Json = dict[str, Any]

COPIED_SHARE = 0.05
CONFLICTING_SHARE = 0.01
GARBAGE_SHARE = 0.01
CRC32_SHARE = 0.25  # of the workflows: their publisher hashes keys in its own way
UNORDERED_SHARE = 0.2  # of the workflows
TIGHT_SHARE = 0.25  # of the workflows: their budget will not do
RICHER_SHARE = 0.15  # of the requests: they ask for more than their workflow's first may
SHORT_SHARE = 0.03  # of the requests: they have seconds to live
TTL_SHORT_S = 4
LATER_S = (0.0, 8.0)  # how long after its original a copy is published

CANCELLED_SHARE = 0.03  # of the runs
CANCELLED_AFTER_S = (0.0, 12.0)
NOW_TEXT = "2026-11-22T09:00:00.000Z"  # of what people say; no promise looks at it
CALLS_OF_A_RUN = script.STEPS + 1

FORMS = {script.CONTRACT: 60, script.WRAPPED: 20, script.BARE: 12, script.TEXT: 8}
POLICIES: list[tuple[Json, int]] = [
    ({}, 80),
    ({"on_invalid": "dead_letter"}, 5),
    ({"on_refusal": "retry"}, 5),
    ({"at_last": "unvalidated"}, 5),
    ({"on_invalid": "dead_letter", "at_last": "unvalidated"}, 5),
]
GARBAGE: list[bytes | None] = [
    None,
    b"",
    b"\xff\xfe no text",
    b"{",
    b"[1, 2, 3]",
    b'{"kind": "request"}',
    b'{"kind": "request", "request_id": "twice", "request_id": "twice"}',
    b'{"kind": "request", "request_id": "r", "workflow_id": "w", "context": {"instructions": "x"}}',
]


@dataclass(frozen=True, slots=True)
class Publication:
    """A record to be published `at_s` seconds into the run; None as a value is a null record."""

    at_s: float
    partition: int
    key: bytes
    value: bytes | None
    topic: str = "requests"


@dataclass(frozen=True, slots=True)
class Workload:
    """`request_ids` must each get one terminal; `letters` records must each get a letter."""

    publications: list[Publication]
    request_ids: frozenset[str]
    dead_letters: int

    def beside(self, other: "Workload") -> "Workload":
        """Both, in order of time."""
        both = sorted(
            [*self.publications, *other.publications], key=lambda publication: publication.at_s
        )
        return Workload(
            both, self.request_ids | other.request_ids, self.dead_letters + other.dead_letters
        )


@dataclass(frozen=True, slots=True)
class _Workflow:
    id: str
    attempts: int
    ordering: str
    partition: int


def workload(
    seed: int,
    requests: int,
    workflows: int,
    partitions: int,
    lasting_s: float,
    *,
    with_agents: bool = False,
    calm_from_s: float = math.inf,
) -> Workload:
    """Everything that is published, the same for the same arguments.

    With agents all requests are runs, of which some are cancelled. The provider answers each
    attempt of what comes in the calm.
    """
    chance = random.Random(f"workload {seed}")
    calls = requests / workflows * (CALLS_OF_A_RUN if with_agents else 1)
    flows = [_workflow(chance, seed, n, calls, partitions) for n in range(workflows)]
    published, ids, dead_letters = [], set(), 0
    for number in range(requests):
        flow, at_s = chance.choice(flows), chance.uniform(0, lasting_s)
        body = _request(
            chance, seed, number, flow, with_agents=with_agents, is_calm=at_s >= calm_from_s
        )
        ids.add(body["request_id"])
        published.append(_publication(at_s, flow, json.dumps(body).encode()))
        later_s = at_s + chance.uniform(*LATER_S)
        if chance.random() < COPIED_SHARE:
            respelt = json.dumps(body, indent=1, sort_keys=True).encode()
            published.append(_publication(later_s, flow, respelt))
        if chance.random() < CONFLICTING_SHARE:
            other = {**body, "labels": {"another": "body"}}
            published.append(_publication(later_s, flow, json.dumps(other).encode()))
            dead_letters += 1
        if with_agents and chance.random() < CANCELLED_SHARE:
            published.append(_cancel(at_s + chance.uniform(*CANCELLED_AFTER_S), body, partitions))
        if chance.random() < GARBAGE_SHARE:
            garbage, partition = chance.choice(GARBAGE), chance.randrange(partitions)
            published.append(Publication(at_s, partition, b"garbage", garbage))
            dead_letters += 1
    published.sort(key=lambda publication: publication.at_s)
    return Workload(published, frozenset(ids), dead_letters)


def _workflow(
    chance: random.Random, seed: int, number: int, calls: float, partitions: int
) -> _Workflow:
    name = f"w{seed}-{number}"
    is_tight = chance.random() < TIGHT_SHARE
    is_unordered = chance.random() < UNORDERED_SHARE
    has_crc32 = chance.random() < CRC32_SHARE
    return _Workflow(
        id=name,
        attempts=max(1, round(calls * (0.8 if is_tight else 4))),
        ordering="none" if is_unordered else "workflow",
        partition=zlib.crc32(name.encode()) % partitions if has_crc32 else owner(name, partitions),
    )


def _request(
    chance: random.Random,
    seed: int,
    number: int,
    flow: _Workflow,
    *,
    with_agents: bool,
    is_calm: bool,
) -> Json:
    form = script.RUN if with_agents else chance.choices(list(FORMS), list(FORMS.values()))[0]
    policies, weights = zip(*POLICIES, strict=True)
    policy = chance.choices(policies, weights)[0]
    plot = script.plot(chance)
    if is_calm:
        plot = script.ANSWER * len(plot)
    is_short = chance.random() < SHORT_SHARE
    return {
        "kind": "request",
        "request_id": f"{seed}-{number:06}.{form}.{plot}",
        "workflow_id": flow.id,
        "answer_schema": _schema(form),
        "context": {"instructions": f"Answer number {number}."},
        "profile": chance.choice(script.PROFILES),
        "budget": {"attempts": flow.attempts + (5 if chance.random() < RICHER_SHARE else 0)},
        "ttl_s": TTL_SHORT_S if is_short else 3600,
        "policy": {**policy, "ordering": flow.ordering},
        **({"agent": {"name": script.AGENT}} if with_agents else {}),
    }


def _cancel(at_s: float, request: Json, partitions: int) -> Publication:
    """A person ends a run; that comes in the partition of its lane, wherever the request came."""
    workflow_id = request["workflow_id"]
    fields = {"kind": "cancel", "scope": "request", "request_id": request["request_id"]}
    fields |= {"workflow_id": workflow_id, "by": "ops", "reason": "not needed", "at": NOW_TEXT}
    value = json.dumps(fields).encode()
    place = owner(workflow_id, partitions)
    return Publication(at_s, place, workflow_id.encode(), value, "controls")


def _schema(form: str) -> Json:
    inline: Json = {
        "kind": "inline",
        "name": "word_and_number",
        "json_schema": script.INLINE_SCHEMA,
    }
    schemas: dict[str, Json] = {
        script.CONTRACT: {"kind": "contract", "name": "plan_proposal", "version": 1},
        script.WRAPPED: inline,
        script.BARE: {**inline, "wrapped": False},
        script.TEXT: {"kind": "text"},
        script.RUN: {"kind": "text"},
    }
    return schemas[form]


def _publication(at_s: float, flow: _Workflow, value: bytes) -> Publication:
    return Publication(at_s, flow.partition, flow.id.encode(), value)
