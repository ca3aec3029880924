"""The model of histories with runs: what it does in each step, by the seed alone."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, Reply
from services.worker.core.run.asking import END_BY_FINISH, LAST_STEP
from tests.simulation.provider import FACTS, INVALID, POISON, SimProvider
from tests.unit.worker.core.run_builders import actions, call, says, thinks

CANARY = "a thought"  # that belongs in Attempts alone
FINISH: dict[str, Any] = {"kind": "finish", "args": {"n": 1}}
WAITS_S = (0.0, 0.01, 0.2, 1.0, 3.0)


@dataclass(slots=True)
class RunModel(SimProvider):
    """Plain requests are answered as in other histories. `asked` are prompts of runs, as told.

    Of runs, `endless-…` calls tools in each step, `again-…` the same ones, the rest as it comes.
    """

    asked: list[Prompt] = field(default_factory=list)

    def _play(self, prompt: Prompt) -> tuple[float, Reply]:
        delay_s, reply = SimProvider._play(self, prompt)
        if prompt.request_id == POISON or prompt.wire.name != "agent_action":
            return delay_s, reply
        self.asked.append(prompt)
        if not isinstance(reply, Answered):
            return delay_s, reply
        chance = random.Random(f"{self.seed} run {prompt.request_id} {prompt.attempt}")
        answer = INVALID if reply.content == INVALID else json.dumps(_answer(chance, prompt))
        return chance.choice(WAITS_S), Answered(answer, FACTS)


def _answer(chance: random.Random, prompt: Prompt) -> dict[str, Any]:
    kind = prompt.request_id.partition("-")[0]
    may_call = all(LAST_STEP not in turn.text for turn in prompt.turns)
    if chance.random() < 0.05:
        return actions(thinks(CANARY))
    if not may_call or (kind == "run" and chance.random() < 0.35):
        return actions(thinks(CANARY), FINISH if END_BY_FINISH in prompt.system else says("End."))
    if kind == "again":
        return actions(thinks(CANARY), call("orders.get", order_id="1"))
    calls = [_call(chance) for _ in range(chance.choice((1, 1, 2, 4)))]
    return actions(thinks(CANARY), says("So."), *calls)


def _call(chance: random.Random) -> dict[str, Any]:
    name = chance.choice(("orders.get", "orders.get", "orders.ship", "orders.pay", "orders.rm"))
    is_right = chance.random() < 0.9
    return call(name, order_id=str(chance.randint(1, 9)) if is_right else "x")
