"""People: they approve, deny, change arguments, answer, do it twice, do nothing, and cancel.

An application approves calls, and answers questions, on the topic that it can write.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from answerbus.call_id import call_name
from answerbus.topics import APPROVALS, CONTROLS, STEPS, Topic
from services.text.digest import canonical_digest, text_digest
from tests.chaos.audit.canonical import owner
from tests.simulation.agents.outsider import Outsider
from tests.simulation.agents.setting import DENIED_ORDER, PREFIX, Json
from tests.simulation.log import Headers

STEPS_NAME = STEPS.full_name(PREFIX)
AT = "2026-11-21T10:00:00.000Z"
REFLECTS_S = (0.1, 1.0, 6.0)
CHANGES_ARGS = 0.2  # the share of calls whose arguments they change
EDITED_ORDERS = ("3", "30", "none")
CANCELS_CHILD = 0.06  # the share of children that a person cancels
ANSWERS_S = (0.0, 0.1, 1.0, 7.0)
ANSWERS = (0, 1, 1, 2, 3)  # to one question
ANSWERED_ON_CONTROLS = 0.1  # the share of answers that an application writes
ANSWERS_ANOTHER = 0.1  # the share of answers to a question of any number
ANSWERS_FIT = 0.7  # the share of answers that fit their schema
OTHERS: Sequence[Any] = ({"t": 1}, None, 7)  # null declines to answer a tool


@dataclass(slots=True)
class People(Outsider):
    """They see what is committed."""

    partitions: int = 1

    def look(self) -> None:
        """From now on."""
        self.watch(STEPS_NAME, self.partitions, self._see)

    def _see(self, event: Json, _: Headers) -> None:
        if event["kind"] == "approval_requested":
            self._decide(event)
        if event["kind"] == "input_requested":
            self._answer(event)
        for call in event["calls"] if event["kind"] == "step" else ():
            chance = random.Random(f"{self.seed} child {call['call_id']}")
            if call["tool"] == "delegate" and chance.random() < CANCELS_CHILD:
                self.cancel(
                    chance.choice(REFLECTS_S), event["workflow_id"], call_name(call["call_id"])
                )

    def _decide(self, asked: Json) -> None:
        names = ("call_id", "args_digest", "workflow_id", "delivery", "after_input")
        fields = {name: asked[name] for name in names if name in asked}
        place = f"{asked.get('delivery', '')}{asked.get('after_input', '')}"
        chance = random.Random(f"{self.seed} {asked['call_id']}{place}")
        after_s = chance.choice(REFLECTS_S)
        if chance.random() < 0.3:
            own = {"kind": "approval", "decision": "approved", **fields}
            self._control(after_s / 4, own, CONTROLS)
        if chance.random() < 0.3:  # of arguments that are not those of the call
            other = {**fields, "args_digest": text_digest("others"), "decision": "approved"}
            self._control(after_s / 2, {"kind": "approval", **other})
        if chance.random() < 0.25:
            return
        change = self._changed(asked)
        for _ in range(chance.choice((1, 1, 2))):
            decision = chance.choice(("approved", "approved", "denied"))
            edited = change if decision == "approved" else {}
            self._control(after_s, {"kind": "approval", "decision": decision, **fields, **edited})
            after_s += chance.choice((0.0, 0.5))

    def _answer(self, asked: Json) -> None:
        chance = random.Random(f"{self.seed} {asked['event_id']}")
        after_s = chance.choice(ANSWERS_S)
        for place in range(chance.choice(ANSWERS)):
            event = {name: asked[name] for name in ("call_id", "workflow_id")}
            fits = {"s": f"{asked['event_id']} {place}"}
            event["value"] = fits if chance.random() < ANSWERS_FIT else chance.choice(OTHERS)
            is_another = chance.random() < ANSWERS_ANOTHER
            event["number"] = chance.choice((1, 2, 3)) if is_another else asked.get("number", 1)
            topic = CONTROLS if chance.random() < ANSWERED_ON_CONTROLS else APPROVALS
            self._control(after_s, {"kind": "input", **event}, topic)
            after_s += chance.choice((0.0, 0.3, 3.0))

    def _changed(self, asked: Json) -> Json:
        """Another order in the place of the model's, which may be none, or one that is denied."""
        chance = random.Random(f"{self.seed} change {asked['call_id']}")
        if chance.random() >= CHANGES_ARGS:
            return {}
        args: Json = {"order_id": chance.choice((*EDITED_ORDERS, DENIED_ORDER))}
        return {
            "args": args,
            "args_digest": canonical_digest(args),
            "asked_digest": asked["args_digest"],
        }

    def cancel(self, after_s: float, workflow_id: str, request_id: str | None) -> None:
        """One request, or all that are open of a workflow."""
        scope = {"scope": "request", "request_id": request_id} if request_id else {}
        event = {"kind": "cancel", "scope": "workflow", "workflow_id": workflow_id, **scope}
        self._control(after_s, event)

    def _control(self, after_s: float, event: Json, topic: Topic | None = None) -> None:
        """On the topic of its kind, unless on another."""
        body = {"by": "ops@acme", "reason": "why", "at": AT, **event}
        place = owner(event["workflow_id"], self.partitions)
        about = event.get("call_id") or event.get("request_id") or event["workflow_id"]
        topic = topic or (APPROVALS if event["kind"] == "approval" else CONTROLS)
        what = f"SAY {event['kind']} of {about}"
        self.say(after_s, "people", what, topic.full_name(PREFIX), place, body)
