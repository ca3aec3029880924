"""The model of histories with runs: what it does in each step, by the seed alone."""

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, Reply
from services.worker.core.run.delegation import HOW_TO_DELEGATE
from services.worker.core.run.next_step import END_BY_FINISH, LAST_STEP
from tests.chaos.audit import steps
from tests.simulation.agents.questions import (
    ASKS_AGAIN,
    ASKS_PERSON,
    CALLS_ASKING,
    DELEGATES,
    has_questions,
    model_question,
)
from tests.simulation.agents.setting import ASKING_TOOLS, LEADS
from tests.simulation.agents.tool_servers import ASKED_BY_TOOL
from tests.simulation.provider import FACTS, GOOD, INVALID, POISON, SimProvider
from tests.unit.worker.core.run_builders import actions, call, says, thinks

CANARY = steps.CANARY.decode()  # in a thought, which belongs in Attempts alone
PART = "part"  # what a child is asked for
PART_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
HOSTILE_SCHEMA = {"$ref": "http://example.com/x"}
AGAIN = ("orders.get", "orders.pay", "orders.state")  # answered once, once at most, each time
CALLED = ("orders.get", "orders.refund", "orders.ship", "orders.pay", "orders.rm")
CALLED_ASKING = tuple(f"orders.{name}" for name in ASKING_TOOLS)
WAITS_S = (0.0, 0.01, 0.2, 1.0, 3.0)


@dataclass(slots=True)
class RunModel(SimProvider):
    """Plain requests are answered as in other histories. `asked` are prompts of runs, as told.

    Of runs, `endless-…` calls tools in each step, `again-…` the same one, the rest as it comes.
    Those that may delegate mostly do, and children end sooner. Of `best-…` one proposal is chosen.
    """

    asked: list[Prompt] = field(default_factory=list)

    def _play(self, prompt: Prompt) -> tuple[float, Reply]:
        delay_s, reply = SimProvider._play(self, prompt)
        if prompt.request_id == POISON:
            return delay_s, reply
        if prompt.wire.name == "selection" and isinstance(reply, Answered):
            return delay_s, Answered(self._chosen(prompt, reply.content == INVALID), FACTS)
        if prompt.wire.name != "agent_action":
            is_part = prompt.wire.name == PART and reply == Answered(GOOD, FACTS)
            return delay_s, Answered(json.dumps(_part(prompt)), FACTS) if is_part else reply
        self.asked.append(prompt)
        if not isinstance(reply, Answered):
            return delay_s, reply
        chance = random.Random(f"{self.seed} run {prompt.request_id} {prompt.attempt}")
        answer = INVALID
        if reply.content != INVALID:
            answer = json.dumps(_answer(chance, prompt, asks=has_questions(self.seed)))
        return chance.choice(WAITS_S), Answered(answer, FACTS)

    def _chosen(self, prompt: Prompt, is_wrong: bool) -> str:
        chance = random.Random(f"{self.seed} choice {prompt.request_id} {prompt.attempt}")
        name = "call:0.0" if is_wrong else chance.choice(ids_of(prompt))
        return json.dumps({"reason": "It is right.", "element_id": name})


def ids_of(prompt: Prompt) -> list[str]:
    """Of the proposals that a selector is told."""
    found = re.findall(r"The proposals are (.*)\.", "\n".join(turn.text for turn in prompt.turns))
    return str(found[0]).split(", ")


def _answer(chance: random.Random, prompt: Prompt, *, asks: bool) -> dict[str, Any]:
    is_child = ".call." in prompt.request_id
    kind = "run" if is_child else prompt.request_id.partition("-")[0]
    may_call = all(LAST_STEP not in turn.text for turn in prompt.turns)
    if chance.random() < 0.05:
        return actions(thinks(CANARY))
    ends = {"best": 1.0, "run": 0.6 if is_child else 0.35}
    if not may_call or chance.random() < ends.get(kind, 0.0):
        return actions(thinks(CANARY), _end(prompt))
    if kind == "again":
        return actions(thinks(CANARY), _call_again(prompt.request_id, asks=asks))
    leads = HOW_TO_DELEGATE in prompt.system
    number = chance.choice((1, 2, 3, 4) if leads else (1, 1, 2, 4))
    delegates = DELEGATES if asks else 0.7
    calls = [
        _delegated(chance) if leads and chance.random() < delegates else _call(chance, asks=asks)
        for _ in range(number)
    ]
    return actions(thinks(CANARY), says("So."), *calls)


def _call_again(request_id: str, *, asks: bool) -> dict[str, Any]:
    """The same call in each step of a run, or the same question to a person."""
    chance = random.Random(f"again {request_id}")
    if asks and chance.random() < ASKS_AGAIN:
        return model_question(chance)
    return call(chance.choice((*AGAIN, *CALLED_ASKING) if asks else AGAIN), order_id="1")


def _end(prompt: Prompt) -> dict[str, Any]:
    if END_BY_FINISH not in prompt.system:
        return says("End.")
    is_part = ".call." in prompt.request_id and not prompt.request_id.endswith(ASKED_BY_TOOL)
    return {"kind": "finish", "args": _part(prompt) if is_part else {"n": 1}}


def _part(prompt: Prompt) -> dict[str, Any]:
    """What a child answers: now and then, that it cannot."""
    can = random.Random(f"part {prompt.request_id}").random() < 0.9
    reason = None if can else "It is not to be had."
    output = {"n": 1} if can else None
    return {"output": output, "success": can, "notes": [], "failure_reason": reason}


def _delegated(chance: random.Random) -> dict[str, Any]:
    args: dict[str, Any] = {"name": PART, "description": "A part.", "instructions": "Do it."}
    args["json_schema"] = PART_SCHEMA if chance.random() < 0.95 else HOSTILE_SCHEMA
    if chance.random() < 0.3:
        args["agent"] = chance.choice((*LEADS, "support-2", "support-8"))
    if chance.random() < 0.1:
        args["use"] = [chance.choice(("call:1.0", "fact:none"))]
    return {"kind": "tool_call", "name": "delegate", "args": args}


def _call(chance: random.Random, *, asks: bool) -> dict[str, Any]:
    if asks and chance.random() < ASKS_PERSON:
        return model_question(chance)
    is_asking = asks and chance.random() < CALLS_ASKING
    name = chance.choice(CALLED_ASKING if is_asking else CALLED)
    is_right = chance.random() < 0.9
    return call(name, order_id=str(chance.randint(1, 9)) if is_right else "x")
