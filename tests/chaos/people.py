"""The people of a run: they approve or deny calls, and now and then look at the wrong arguments.

Before they decide, an application may approve the call itself, on the topic that it can write.
"""

import json
import random
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.chaos.workload import NOW_TEXT

Json = dict[str, Any]

WRONG_SHARE = 0.2  # of the decisions: first one about other arguments
DENIED_SHARE = 0.2
TWICE_SHARE = 0.2
SELF_APPROVED_SHARE = 0.2
_BATCH = 500
_NO_DIGEST = "sha256:" + "0" * 64


class People:
    """Reads what runs do, and answers what they ask."""

    def __init__(self, bootstrap: str, prefix: str, partitions: int) -> None:
        self._approvals = f"{prefix}.approvals.v1"
        self._controls = f"{prefix}.controls.v1"
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "people-without-a-group",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        steps = f"{prefix}.steps.v1"
        self._consumer.assign(
            [TopicPartition(steps, number, OFFSET_BEGINNING) for number in range(partitions)]
        )
        self.decided = 0

    def look(self) -> None:
        """Decide what has been asked since; returns at once."""
        for message in self._consumer.consume(_BATCH, timeout=0):
            if message.error() is not None:
                continue
            event = json.loads(message.value() or b"")
            if event["kind"] == "approval_requested":
                self._decide(event, message.partition() or 0)
        self._producer.poll(0)

    def close(self) -> None:
        self._consumer.close()
        self._producer.flush(1.0)

    def _decide(self, asked: Json, partition: int) -> None:
        """Each call always gets the same decisions."""
        chance = random.Random(asked["call_id"])
        kept = {name: asked[name] for name in ("call_id", "args_digest", "workflow_id")}
        fields = {**kept, "kind": "approval", "by": "ops", "reason": "looked at it", "at": NOW_TEXT}
        again = asked.get("delivery", 1) > 1  # nobody knows whether it ran: once is enough
        fields |= {"delivery": asked.get("delivery", 1)}
        decision = "denied" if again or chance.random() < DENIED_SHARE else "approved"
        decisions = [{**fields, "decision": decision}] * (1 + (chance.random() < TWICE_SHARE))
        if chance.random() < WRONG_SHARE:
            wrong = {**fields, "decision": "approved", "args_digest": _NO_DIGEST}
            decisions.insert(0, wrong)
        key = asked["workflow_id"].encode()
        if chance.random() < SELF_APPROVED_SHARE:
            own = {**fields, "decision": "approved"}
            self._producer.produce(self._controls, json.dumps(own), key, partition)
        for one in decisions:
            self._producer.produce(self._approvals, json.dumps(one), key, partition)
        self.decided += 1
