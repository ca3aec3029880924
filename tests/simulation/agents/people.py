"""People: they approve, deny, look at other arguments, do it twice, do nothing, and cancel."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field

from answerbus.topics import CONTROLS, STEPS
from services.digest import text_digest
from tests.chaos.audit.canonical import owner
from tests.simulation.agents.setting import PREFIX, Json
from tests.simulation.cluster import Cluster
from tests.simulation.process import OUTSIDE

STEPS_NAME, CONTROLS_NAME = STEPS.full_name(PREFIX), CONTROLS.full_name(PREFIX)
AT = "2026-11-21T10:00:00.000Z"
REFLECTS_S = (0.1, 1.0, 6.0)


@dataclass(slots=True)
class People:
    """They see what is committed."""

    cluster: Cluster
    seed: int
    partitions: int
    _positions: Counter[int] = field(default_factory=Counter)

    def watch(self) -> None:
        """From now on."""
        self.cluster.watchers.append(self._on_growth)

    def _on_growth(self, topic: str) -> None:
        if topic != STEPS_NAME:
            return
        for partition in range(self.partitions):
            log = self.cluster.log(STEPS_NAME, partition)
            entries, self._positions[partition] = log.read(self._positions[partition], 500)
            for entry in entries:
                event = json.loads(entry.value or b"{}")
                if event["kind"] == "approval_requested":
                    self._decide(event)

    def _decide(self, asked: Json) -> None:
        chance = random.Random(f"{self.seed} {asked['call_id']}")
        said = {name: asked[name] for name in ("call_id", "args_digest", "workflow_id")}
        after_s = chance.choice(REFLECTS_S)
        if chance.random() < 0.3:  # of arguments that are not those of the call
            other = {**said, "args_digest": text_digest("others"), "decision": "approved"}
            self.say(after_s / 2, {"kind": "approval", **other})
        if chance.random() < 0.25:
            return
        for _ in range(chance.choice((1, 1, 2))):
            decision = chance.choice(("approved", "approved", "denied"))
            self.say(after_s, {"kind": "approval", "decision": decision, **said})
            after_s += chance.choice((0.0, 0.5))

    def cancel(self, after_s: float, workflow_id: str, request_id: str | None) -> None:
        """One request, or all that are open of a workflow."""
        scope = {"scope": "request", "request_id": request_id} if request_id else {}
        event = {"kind": "cancel", "scope": "workflow", "workflow_id": workflow_id, **scope}
        self.say(after_s, event)

    def say(self, after_s: float, event: Json) -> None:
        """Write a control, once the broker is there."""
        loop = asyncio.get_running_loop()
        loop.call_later(after_s, self._say, event, context=OUTSIDE)

    def _say(self, event: Json) -> None:
        if self.cluster.is_away:
            self.say(1.0, event)
            return
        body = {"by": "ops@acme", "reason": "why", "at": AT, **event}
        place = owner(event["workflow_id"], self.partitions)
        about = event.get("call_id") or event.get("request_id") or event["workflow_id"]
        self.cluster.timeline.tell(f"SAY {event['kind']} of {about}", who="people")
        value = json.dumps(body).encode()
        self.cluster.produce(None, 0, [(CONTROLS_NAME, place, b"key", value, ())])
