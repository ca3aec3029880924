"""Models that delegate, on virtual time: what each asks and answers, and what holds of a tree."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from answerbus.call_id import call_name
from answerbus.topics import ATTEMPTS, LEDGER, REQUESTS, RETRIES, RUNS
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from services.worker.core.run.next_step import LAST_STEP
from tests.unit.worker.builders import answered
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.run_world import RunProvider, RunStage, Tooling, prompt_tool
from tests.unit.worker.lane.world import _audit_accounts, _audit_calls, events, terminals

Json = dict[str, Any]
STATE: Json = {
    "type": "object",
    "properties": {"state": {"enum": ["shipped", "lost"]}},
    "required": ["state"],
    "additionalProperties": False,
}
SHIPPED: Json = {"state": "shipped"}


def delegate(name: str = "status", **more: Any) -> Json:
    args = {
        "name": name,
        "description": "What the carrier says.",
        "instructions": f"Look at {name}.",
        "json_schema": STATE,
        **more,
    }
    return {"kind": "tool_call", "name": "delegate", "args": args}


def wrapped(output: Any = None, **more: Any) -> Json:
    fields = {"output": SHIPPED if output is None else output, "success": True}
    return {**fields, "notes": [], "failure_reason": None, **more}


def finish(args: Json) -> Json:
    return actions({"kind": "finish", "args": args})


FAN_OUT = (actions(delegate("a"), delegate("b")), actions(says("Joined.")))


@dataclass
class DelegatingProvider(RunProvider):
    """`answers` say by request what a model answers in each of its attempts; others are wrapped.

    A child that is told that this is its last step finishes.
    """

    answers: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    child_s: float = 0.05
    fallback: Callable[[str, int], Json] = lambda _request_id, _attempt: wrapped()

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        name = prompt.request_id
        if ".call." not in name:
            return await super().ask(prompt, timeout_s=timeout_s)
        self.prompts.append(prompt)
        number = sum(turn.role == "assistant" for turn in prompt.turns)
        reported = self.answers.get(name, ())
        answer = (
            reported[min(number, len(reported) - 1)] if reported else self.fallback(name, number)
        )
        if LAST_STEP in prompt.turns[-1].text:
            answer = finish(wrapped())
        self.script = lambda *_: (self.child_s, answered(json.dumps(answer)))
        return await super(RunProvider, self).ask(prompt, timeout_s=timeout_s)


class DelegatingStage(RunStage):
    """One agent, `support`, that may ask children; and among them itself."""

    provider: DelegatingProvider

    def __init__(
        self,
        steps: Sequence[Json] = FAN_OUT,
        answers: Mapping[str, Sequence[Json]] | None = None,
        tooling: Tooling = prompt_tool,
        agent: Json | None = None,
        **more: Any,
    ) -> None:
        allowed = {"depth_max": 4, "agents": ("support",), "profiles": ("default",), **more}
        super().__init__(steps, tooling, {"delegate": allowed, **(agent or {})})
        self.provider = DelegatingProvider(steps=steps, answers=answers or {})
        self.worker._leave()
        self.worker = self.new_worker()

    def asked_calls(self) -> list[Json]:
        """Each call as its step asked for it."""
        steps = [event for event in events(self.broker, RUNS) if event["kind"] == "run_step"]
        return [made for step in steps for made in step["calls"]]


def check_tree(stage: RunStage) -> None:
    """A1 to A5 and A8 of a whole tree, from what is in the topics."""
    broker, attempts = stage.broker, events(stage.broker, ATTEMPTS)
    _audit_accounts(events(broker, LEDGER), attempts)
    _audit_calls(stage.provider, attempts)
    asked = {
        json.loads(record.value or b"")["request_id"] for record in broker.log(REQUESTS).records
    }
    found = terminals(broker)
    spawned = _spawned(broker)
    assert found.keys() >= asked | spawned.keys(), "one terminal each"
    # One that ends in the transaction in which it is asked leaves no record of its own.
    children = {one["request_id"]: one["parent"]["call_id"] for one in stage.children()}
    assert found.keys() - asked <= children.keys(), "and of nothing else"
    once = [call_id for name, call_id in children.items() if name not in asked]
    assert len(once) == len(set(once)), "one child for each call"
    for topic in (RETRIES, RUNS):
        last = {record.key: record.value for record in broker.log(topic).records}
        left = [key for key, value in last.items() if value is not None]
        # What is cancelled of a whole workflow is remembered for requests that are read later.
        assert all((key or b"").startswith(b"/cancel/") for key in left), f"left in {topic.name}"
    calls = [call_name(made["call_id"]) for step in stage.steps("step") for made in step["calls"]]
    assert sorted(stage.ended()) == sorted(calls), "each call ends once"
    _check_joins(stage, spawned)
    _check_ends(stage)


def _spawned(broker: Broker) -> dict[str, Json]:
    return {
        event["request"]["request_id"]: event["request"]
        for event in events(broker, RUNS)
        if event["kind"] == "run_child"
    }


def _check_joins(stage: RunStage, spawned: Mapping[str, Json]) -> None:
    """What a run is told of a child is what the child ended with, and is in one transaction."""
    ended = stage.ended()
    for outcome in stage.outcomes():
        name = outcome["request_id"]
        if name not in spawned:
            continue
        reported = ended[call_name(outcome["parent"]["call_id"])]
        if outcome["kind"] == "result":
            assert reported == {"kind": "ok", "value": outcome["answer"]}
            answer = outcome["answer"]
            asked = spawned[name]["answer_schema"]
            if not asked.get("wrapped"):
                jsonschema.validate(answer, asked.get("json_schema", True))
            elif answer["success"]:
                jsonschema.validate(answer["output"], asked["json_schema"])
        elif reported["kind"] != "cancelled":
            assert reported["kind"] in {"dead_letter", "declined"}


def _check_ends(stage: RunStage) -> None:
    """A run ends after its children; a subtree stays within its cap."""
    at = {
        outcome["request_id"]: outcome.get("finished_at") or outcome["at"]
        for outcome in stage.outcomes()
    }
    parents = {
        outcome["request_id"]: outcome["parent"]
        for outcome in stage.outcomes()
        if outcome.get("parent")
    }
    for name, parent in parents.items():
        assert at[name] <= at[parent["request_id"]], f"{name} ends after its run"
    counted = Counter(
        attempt["request_id"] for attempt in events(stage.broker, ATTEMPTS) if attempt["counted"]
    )
    below: dict[str, int] = defaultdict(int)
    for name, number in counted.items():
        one: str | None = name
        while one is not None:
            below[one] += number
            one = parents[one]["request_id"] if one in parents else None
    for name, request in _spawned(stage.broker).items():
        cap = request["parent"]["cap"]
        assert cap is None or below[name] <= cap, f"{name} stays within its cap"
