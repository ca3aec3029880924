"""Histories of runs made by hand: steps, tool calls, their deliveries and their ends."""

import base64
import copy
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from tests.chaos.audit.canonical import digest
from tests.chaos.audit.history import Deed, History
from tests.chaos.by_hand import made
from tests.chaos.by_hand.history_builder import HistoryBuilder
from tests.chaos.by_hand.made import Json

ARGS = {"order_id": "4711"}
GET, PAY = "orders.get", "orders.pay"
SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string", "pattern": "^[0-9]+$"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
USED = {"input_tokens": 10, "output_tokens": 2, "micro_usd": None}
OK = {"kind": "ok", "value": "done"}


@dataclass
class RunHistoryBuilder(HistoryBuilder):
    """Each step takes the moment that comes next; `changes` is what it gets wrong."""

    deeds: list[Deed] = field(default_factory=list)
    heads: dict[str, str] = field(default_factory=dict)  # of the chains, by request
    did: "Counter[str]" = field(default_factory=Counter)  # steps and calls, by request
    tokens: dict[str, str] = field(default_factory=dict)
    args: Json = field(default_factory=lambda: dict(ARGS))
    state: str = ""  # of calls once their step is taken; as their tools have it by default
    steps_max: int = 12
    allowed: Json = field(default_factory=dict)  # what its agent may beside its tools
    policy: Json | None = None  # of the tool that looks up
    pay: Json = field(default_factory=dict)  # of the card of the tool that pays

    def history(self) -> History:
        """All of it, with what the tools noted."""
        return replace(super().history(), deeds=self.deeds)

    def begin(self, id_: str, attempts: int = 9) -> None:
        """Upstream asks an agent."""
        self.ask(id_, agent={"name": "support"}, budget={"attempts": attempts})

    def step(self, id_: str, attempt: int, *tools: str, **changes: Any) -> None:
        """An attempt that became a step, with a call of each of these tools."""
        self.spend(id_, attempt)
        self.call(id_, attempt)
        self.settle(id_, attempt, "step", usage=USED)
        if not self.did[id_]:
            self.write("run", **self._run(id_))
        self.did[id_] += 1
        self.did[f"{id_} calls"] += len(tools)
        calls = [
            {
                "call_id": f"{id_}.call.{attempt}.{place}",
                "tool": tool,
                "args": self.args,
                "args_digest": digest(self.args),
                "state": self.state or ("awaits_approval" if tool == PAY else "called"),
            }
            for place, tool in enumerate(tools)
        ]
        fields = {"event_id": f"{id_}.step.{attempt}", "request_id": id_, "attempt": attempt}
        fields |= {"workflow_id": "w", "n": self.did[id_], "calls": calls}
        self._chain(id_, "step", **{**fields, **changes})

    def deliver(self, id_: str, place: str, tool: str = GET, **changes: Any) -> None:
        """A call goes out; `place` is its attempt and its place in the answer."""
        call_id = f"{id_}.call.{place}"
        sent = [record for record in self.records if record.topic == "tools.orders"]
        number = sum(record.key == call_id.encode() for record in sent)
        token = base64.b64encode(f"{number}/{call_id}".encode().ljust(16)[:16]).decode()
        self.tokens[call_id] = token
        fields: Json = {"call_id": call_id, "delivery": number + 1, "request_id": id_}
        fields |= {"toolset": "orders", "tool": tool.partition(".")[2], "workflow_id": "w"}
        fields |= {"at": made.text(self.now)}
        fields |= {"args": self.args, "args_digest": digest(self.args)}
        reply = {**made.event("tool_call")["reply"], "token": token}
        self.write("tool_call", 0, **{**fields, "reply": reply, **changes})

    def approve(self, id_: str, place: str, **changes: Any) -> None:
        """A person's approval is applied."""
        control = made.event("control_applied")["control"]
        control |= {"call_id": f"{id_}.call.{place}", "args_digest": digest(ARGS), **changes}
        at = made.text(self.now)
        self.write("control_applied", control=control, workflow_id="w", requests=[id_], at=at)

    def do(self, id_: str, place: str, tool: str = GET) -> None:
        call_id = f"{id_}.call.{place}"
        self.deeds.append(Deed(call_id, 1, tool, 7, self.tick(), self.tick()))

    def answer(self, id_: str, place: str, **changes: Any) -> None:
        """Its server says so."""
        call_id = f"{id_}.call.{place}"
        fields = {"call_id": call_id, "workflow_id": "w", "token": self.tokens[call_id]}
        self.write("tool_result", **{**fields, "outcome": OK, **changes})

    def close_call(self, id_: str, place: str, **changes: Any) -> None:
        fields = {"request_id": id_, "workflow_id": "w", "call_id": f"{id_}.call.{place}"}
        fields |= {"at": made.text(self.now)}
        self._chain(id_, "tool_ended", **{**fields, "outcome": OK, **changes})

    def carry_out(self, id_: str, place: str, tool: str = GET) -> None:
        """A call from its delivery to its end, without any trouble."""
        if tool == PAY:
            self.approve(id_, place)
        self.deliver(id_, place, tool)
        self.do(id_, place, tool)
        self.answer(id_, place)
        self.close_call(id_, place)

    def finish(self, id_: str, attempt: int, **changes: Any) -> None:
        """The answer of a run, and its private records are ended."""
        self.spend(id_, attempt)
        self.call(id_, attempt)
        self.end_as_asked(id_, attempt, **changes)

    def end_as_asked(self, id_: str, attempt: int, **changes: Any) -> None:
        """The answer has come."""
        self.settle(id_, attempt)
        did = {"steps": self.did[id_], "tool_calls": self.did[f"{id_} calls"]}
        self.end(id_, attempt=attempt, **{"run": {**made.RUN, **did}, **changes})
        self.put("runs", 0, f"{id_}@w".encode(), None)

    def cancelled(self, id_: str) -> Json:
        """What a worker says of a cancellation that it applied."""
        fields = {"kind": "cancel", "scope": "request", "request_id": id_, "workflow_id": "w"}
        fields |= {"by": "ops", "reason": "why", "at": made.text(self.now)}
        return {"control": fields, "effect": "cancelled", "requests": [id_], "workflow_id": "w"}

    def asked_whole(self, id_: str) -> Json:
        """The request as events of ours repeat it."""
        named = {"agent": {"name": "support", "version": None, "tools": None}}
        example: Json = made.event("run")["request"]
        return example | made.whole(self.asked[id_][0]) | named

    def change_last(self, kind: str, **members: Any) -> None:
        """An event of that kind is changed, and its hash is not."""
        place = max(
            number
            for number, record in enumerate(self.records)
            if record.topic == made.TOPIC_OF[kind]
        )
        record = self.records[place]
        body = json.loads(record.value or b"") | members
        self.records[place] = replace(record, value=json.dumps(body).encode())

    def _chain(self, id_: str, kind: str, **members: Any) -> None:
        members = {"previous": self.heads.get(id_), **members}
        body = self.write(kind, **members)
        self.heads[id_] = body["hash"]

    def _run(self, id_: str) -> Json:
        record = self.asked[id_][1]
        definition = copy.deepcopy(made.event("run")["definition"])
        card = definition["tools"][0]["card"] | {"args_schema": SCHEMA}
        get = {"toolset": "orders", "card": card | {"name": "get"}, "policy": self.policy}
        once = {"name": "pay", "delivery": "at_most_once", "approval": "always"}
        pay = {"toolset": "orders", "card": card | once | self.pay}
        fields = {"workflow_id": "w", "request": self.asked_whole(id_)}
        fields |= {"origin": made.origin(record)}
        definition |= {"tools": [get, pay], "steps_max": self.steps_max, **self.allowed}
        return {**fields, "definition": definition}
