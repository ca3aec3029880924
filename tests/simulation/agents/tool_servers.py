"""Tool servers: in no process of ours, and they note what they ran. They read what is committed."""

import random
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from answerbus.call_id import call_name
from answerbus.topics import REQUESTS, TOOL_RESULTS
from tests.chaos.audit.canonical import owner
from tests.chaos.audit.history import Deed
from tests.chaos.audit.traces import HEADER as TRACE_HEADER
from tests.simulation.agents.outsider import Outsider
from tests.simulation.agents.questions import progress
from tests.simulation.agents.setting import ASKING_TOOLS, CALLS, LEADS, PREFIX, DelayedReply, Json
from tests.simulation.log import Headers
from tests.simulation.upstream import THING

RESULTS, ASKED = TOOL_RESULTS.full_name(PREFIX), REQUESTS.full_name(PREFIX)
FORGED = "forged"
ASKED_BY_TOOL = ".ask"  # how ids of requests end that a tool asks while it works
ASKS = 0.15  # the share of calls whose tool asks one
OK: Json = {"kind": "ok", "value": "done"}
FAILED: Json = {"kind": "error", "code": "not_found", "message": "no"}
DIES_FIRST = 0.05  # the share of calls whose server ends before it runs them
RESULTS_OF_ASKING = (0, 0, 1, 1, 2)  # how often a server that may ask says how a call ended
ENDS_S = (0.0, 0.1, 5.0, 15.0)


def cost_of(call_id: str) -> int:
    """What a call costs, in micro-dollars; a third of them nothing."""
    return zlib.crc32(call_id.encode()) % 3 * 350


@dataclass(slots=True)
class ToolServers(Outsider):
    """`deeds` are calls as they were run, `said` what was answered to which token.

    `kept` are the states of each call, `spans` what the headers of calls say of their traces.
    """

    partitions: int = 1
    deeds: list[Deed] = field(default_factory=list)
    said: dict[str, list[Json]] = field(default_factory=dict)
    kept: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    spans: dict[str, bytes] = field(default_factory=dict)

    def serve(self) -> None:
        """From now on."""
        self.watch(CALLS, self.cluster.partitions[CALLS], self._take)

    def _take(self, call: Json, headers: Headers) -> None:
        if "call_id" in call:
            self.spans[call["call_id"]] = dict(headers).get(TRACE_HEADER) or b""
        if call["kind"] == "tool_reconcile":
            self._reconcile(call)
        if call["kind"] == "tool_continue":
            self._work(call["call"])
        if call["kind"] != "tool_call":
            return
        if call["tool"] in ASKING_TOOLS:
            self._begin(call)
            return
        chance = random.Random(f"{self.seed} {call['call_id']} {call['delivery']}")
        for after_s, event in self._answers(chance, call):
            self._answer(after_s, call, event)
        if chance.random() < ASKS:
            self._ask(chance, call)

    def _begin(self, call: Json) -> None:
        chance = random.Random(f"{self.seed} {call['call_id']} {call['delivery']}")
        if chance.random() < DIES_FIRST:
            return
        self._run(call)
        self._work(call)

    def _run(self, call: Json) -> None:
        now = self.cluster.clock.now()
        self.deeds.append(Deed(call["call_id"], call["delivery"], call["tool"], 0, now, now))

    def _work(self, call: Json) -> None:
        """Of a tool that asks: now and then nothing more is heard of it."""
        chance, after_s = random.Random(f"{self.seed} {call['reply']['token']}"), 0.0
        for after_s, event in progress(chance, call["call_id"]):
            if "state" in event:
                self.kept[call["call_id"]].add(event["state"])
            self._answer(after_s, call, event)
        for _ in range(chance.choice(RESULTS_OF_ASKING)):
            after_s += chance.choice(ENDS_S)
            outcome = chance.choice((OK, OK, FAILED))
            self._answer(after_s, call, self._result(outcome))
            self.said.setdefault(call["reply"]["token"], []).append(outcome)

    def _answers(self, chance: random.Random, call: Json) -> Iterator[DelayedReply]:
        """A server may die before it runs, or after; be slow, or late; or say a thing twice."""
        roll = chance.random() * (0.3 if call["tool"] == "refund" else 1.0)
        if roll < DIES_FIRST:
            return
        self._run(call)
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

    def _reconcile(self, question: Json) -> None:
        """By what ran; a reconciler may find nothing out, be slow or silent, or say it twice."""
        chance = random.Random(f"{self.seed} {question['call_id']} ? {question['question']}")
        roll = chance.random()
        if roll < 0.2:
            return
        after_s = chance.choice((0.0, 0.3, 2.0, 15.0))
        forged = {"kind": "did_not_happen"}
        finding: Json = {"kind": "happened", "value": "done"}
        if cost := cost_of(question["call_id"]):
            finding["micro_usd"] = cost
        if roll < 0.4:
            finding = {"kind": "unknown"}
        elif all(deed.call_id != question["call_id"] for deed in self.deeds):
            finding = forged
        said = {"kind": "tool_reconciled", "finding": finding}
        if roll < 0.6:  # of a server that could not read the question
            self._answer(0.0, question, {**said, "finding": forged, "token": "A" * 22 + "=="})
        for _ in range(chance.choice((1, 1, 2))):
            self._answer(after_s, question, said)
            after_s += 1.0

    def _ask(self, chance: random.Random, call: Json) -> None:
        """A tool asks the workflow of its run: soon, or when its call has long ended; or twice."""
        parent = {name: call["parent"][name] for name in ("request_id", "call_id")}
        body: Json = {
            "kind": "request",
            "request_id": f"{call_name(call['call_id'])}{ASKED_BY_TOOL}",
            "workflow_id": call["workflow_id"],
            "answer_schema": THING,
            "context": {"instructions": "Say something."},
            "budget": {"attempts": chance.choice((1, 60))},
            "ttl_s": chance.choice((20, 300)),
            "parent": parent,
        }
        if chance.random() < 0.3:
            body["agent"] = {"name": chance.choice((*LEADS, "support-8"))}
        if chance.random() < 0.1:
            body["parent"] = {**parent, "call_id": f"{call['call_id']}.other"}
        place = owner(call["workflow_id"], self.partitions)
        for _ in range(chance.choice((1, 1, 2))):
            after_s = chance.choice((0.0, 0.01, 1.0, 20.0))
            name = body["request_id"]
            self.say(after_s, "tools", f"ASKS {name}", ASKED, place, body)

    def _result(self, outcome: Json, **more: Any) -> Json:
        return {"kind": "tool_result", "outcome": outcome, **more}

    def _answer(self, after_s: float, call: Json, event: Json) -> None:
        reply = call["reply"]
        fields = {name: call[name] for name in ("call_id", "workflow_id")}
        body = {**fields, "token": reply["token"], **event}
        if body["kind"] == "tool_result" and (cost := cost_of(call["call_id"])):
            body["micro_usd"] = cost
        what = f"SAYS {body['kind']} of {call['call_id']}"
        kind = ("ce_type", f"answerbus.{body['kind']}.v1".encode())
        headers = kind, (TRACE_HEADER, self.spans[call["call_id"]])
        self.say(after_s, "tools", what, RESULTS, reply["partition"], body, headers)
