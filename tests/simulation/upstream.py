"""Those who ask: requests of several workflows, and records that are none, or come twice."""

import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.audit.canonical import owner
from tests.simulation.budgets import labels_of
from tests.simulation.log import Headers
from tests.simulation.sides import named

Json = dict[str, Any]

THING = {
    "kind": "inline",
    "name": "thing",
    "wrapped": False,
    "json_schema": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    },
}
HOSTILE = {
    "kind": "inline",
    "name": "bad",
    "wrapped": False,
    "json_schema": {"$ref": "http://example.com/x"},
}
UNDECODABLE: tuple[bytes | None, ...] = (
    None,
    b"",
    b"\xff\xfe",
    b"{}",
    b"[1",
    b'{"kind":"request"}',
)


@dataclass(slots=True)
class Upstream:
    """Gives, one after the other, what to publish where, and after how many seconds."""

    chance: random.Random
    partitions: int
    requests: int
    there: int  # partitions of the topic, of which the deployment uses fewer
    parents: random.Random  # for requests that say they are children
    published: list[tuple[bytes, str]] = field(default_factory=list)  # values and workflows
    bodies: list[Json] = field(default_factory=list)
    equal_ids: bool = True  # each is used by two workflows

    def records(self) -> Iterator[tuple[float, int, bytes | None, Headers]]:
        """Waits, partitions, values and headers."""
        chance = self.chance
        workflows = [f"w-{number}" for number in range(chance.randint(1, 6))]
        while len(self.bodies) < self.requests:
            wait_s = chance.choice((0.0, 0.0, 0.05, 0.3, 1.0, 2.0))
            roll = chance.random()
            if roll < 0.05:
                yield wait_s, chance.randrange(self.there), chance.choice(UNDECODABLE), ()
            elif roll < 0.12 and self.published:
                value, workflow = chance.choice(self.published)
                yield wait_s, self._place(workflow), value, ()
            elif roll < 0.15 and self.bodies:
                body = chance.choice(self.bodies)
                body = body | {"labels": {"another": "body", **labels_of(body["workflow_id"])}}
                yield wait_s, owner(body["workflow_id"], self.partitions), _bytes(body), ()
            else:
                yield wait_s, *self._request(chance.choice(workflows)), ()

    def poisoned(self, poison: str) -> Iterator[tuple[int, bytes]]:
        """A request that ends its worker, among some that have nothing to do with it."""
        names = [f"beside-{number}" for number in range(2 * self.partitions)]
        for name in [*names[:2], poison, *names[2:]]:
            body: Json = {
                "kind": "request",
                "request_id": name,
                "workflow_id": f"w-{name}",
                "answer_schema": THING,
                "context": {"instructions": "Say something."},
                "budget": {"attempts": 100},
                "ttl_s": 1_500,
            }
            self.bodies.append(body)
            yield owner(body["workflow_id"], self.partitions), _bytes(body)

    def _request(self, workflow: str) -> tuple[int, bytes]:
        if self.equal_ids:
            workflow = named(workflow, len(self.bodies))
        body = self._body(workflow)
        if self.parents.random() < 0.04:
            body["parent"] = self._parent()
        self.bodies.append(body)
        value = _bytes(body)
        self.published.append((value, workflow))
        return self._place(workflow), value

    def _body(self, workflow: str) -> Json:
        chance = self.chance
        body: Json = {
            "kind": "request",
            "request_id": f"r-{len(self.bodies) // (2 if self.equal_ids else 1)}",
            "workflow_id": workflow,
            "answer_schema": THING if chance.random() < 0.8 else {"kind": "text"},
            "context": {"instructions": "Say something."},
            "budget": {"attempts": chance.choice((1, 8, 60, 60, 60))},
            "ttl_s": chance.choice((20, 60, 200, 300)),
            "labels": {"tenant": f"of-{workflow}", "ticket": str(len(self.bodies))}
            | labels_of(workflow),
        }
        if _adds_up(workflow) and chance.random() < 0.95:
            del body["budget"]  # each request has three attempts of its own
        elif chance.random() < 0.1:
            body["budget"]["tokens"] = chance.choice((100, 2_000))
        if chance.random() < 0.04:
            body["answer_schema"] = HOSTILE
        if chance.random() < 0.03:
            body["profile"] = "unknown"
        policy: Json = {}
        if chance.random() < 0.2:
            policy["ordering"] = "none"
        if chance.random() < 0.2:
            policy["on_invalid"] = "dead_letter"
        if chance.random() < 0.3:
            policy["at_last"] = chance.choice(("text", "unvalidated"))
        if chance.random() < 0.2:
            policy["on_refusal"] = "retry"
        if policy:
            body["policy"] = policy
        return body

    def _parent(self) -> Json:
        """Of nothing, or of a request without such a call."""
        names = ["nobody", *(body["request_id"] for body in self.bodies)]
        return {
            "request_id": self.parents.choice(names),
            "call_id": f"call-{self.parents.randrange(3)}",
            "depth": self.parents.choice((1, 2)),
            "cap": self.parents.choice((0, 5)),
        }

    def _place(self, workflow: str) -> int:
        """Some publishers hash in another way, and some over all partitions that there are."""
        if self.chance.random() < 0.08:
            return self.chance.randrange(self.there)
        over = self.there if self.chance.random() < 0.3 else self.partitions
        return owner(workflow, over)


def _bytes(body: Json) -> bytes:
    return json.dumps(body).encode()


def _adds_up(workflow: str) -> bool:
    """Whether requests of this workflow name no budget, but for a few."""
    return zlib.crc32(workflow.encode()) % 3 == 0
