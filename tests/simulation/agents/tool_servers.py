"""Tool servers: in no process of ours, and they note what they ran. They read what is committed."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from answerbus.topics import TOOL_RESULTS
from tests.simulation.agents.setting import CALLS, PREFIX, Json
from tests.simulation.cluster import Cluster
from tests.simulation.process import OUTSIDE

RESULTS = TOOL_RESULTS.full_name(PREFIX)
RETRY_S = 0.5  # while the broker is away
FORGED = "forged"
OK: Json = {"kind": "ok", "value": "done"}
FAILED: Json = {"kind": "error", "code": "not_found", "message": "no"}
Said = tuple[float, Json]  # after so many seconds


@dataclass(slots=True)
class ToolServers:
    """`ran` are calls as they were run, `said` what was answered to which token."""

    cluster: Cluster
    seed: int
    ran: Counter[str] = field(default_factory=Counter)
    said: dict[str, list[Json]] = field(default_factory=dict)
    _positions: Counter[int] = field(default_factory=Counter)

    def serve(self) -> None:
        """From now on."""
        self.cluster.watchers.append(self._on_growth)

    def _on_growth(self, topic: str) -> None:
        if topic != CALLS:
            return
        for partition in range(self.cluster.partitions[CALLS]):
            log = self.cluster.log(CALLS, partition)
            entries, self._positions[partition] = log.read(self._positions[partition], 500)
            for entry in entries:
                event = json.loads(entry.value or b"{}")
                if event["kind"] == "tool_call":
                    self._take(event)

    def _take(self, call: Json) -> None:
        chance = random.Random(f"{self.seed} {call['call_id']} {call['delivery']}")
        for after_s, event in self._answers(chance, call):
            _later(after_s, self._say, call, event)

    def _answers(self, chance: random.Random, call: Json) -> Iterator[Said]:
        """A server may die before it runs, or after; be slow, or late; or say a thing twice."""
        roll = chance.random()
        if roll < 0.05:
            return
        self.ran[call["call_id"]] += 1
        outcome = chance.choice((OK, OK, OK, FAILED))
        after_s = chance.choice((0.0, 0.02, 0.3, 2.0, 8.0))
        if roll < 0.10:
            return
        if roll < 0.15:
            after_s += 40.0
        if roll < 0.20:
            yield after_s / 2, {"kind": "tool_progress", "note": "half"}
        if roll < 0.25:  # of a server that could not read the call
            yield after_s / 2, self._result({"kind": "ok", "value": FORGED}, token="A" * 22 + "==")
        yield after_s, self._result(outcome)
        self.said.setdefault(call["reply"]["token"], []).append(outcome)
        if roll > 0.9:
            yield after_s + chance.choice((0.0, 1.0)), self._result(FAILED)

    def _result(self, outcome: Json, **more: Any) -> Json:
        return {"kind": "tool_result", "outcome": outcome, **more}

    def _say(self, call: Json, event: Json) -> None:
        if self.cluster.is_away:
            _later(RETRY_S, self._say, call, event)
            return
        reply = call["reply"]
        body = {
            "call_id": call["call_id"],
            "workflow_id": call["workflow_id"],
            "token": reply["token"],
            **event,
        }
        value = json.dumps(body).encode()
        self.cluster.timeline.tell(f"SAYS {body['kind']} of {call['call_id']}", who="tools")
        self.cluster.produce(None, 0, [(RESULTS, reply["partition"], b"key", value, ())])


def _later(after_s: float, what: Callable[..., None], *args: object) -> None:
    asyncio.get_running_loop().call_later(after_s, what, *args, context=OUTSIDE)
