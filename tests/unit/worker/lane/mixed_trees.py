"""Trees of planners, specialists with tools and agents that choose, whose models ask anything."""

import json
from dataclasses import replace
from random import Random
from typing import Any

from answerbus.private.runs import AgentDefinition
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from services.worker.core.request.admit import Admitted
from services.worker.core.run.agents import Agent, Agents
from services.worker.lane.context import LaneContext
from tests.unit.worker.builders import answered
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import (
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.faulty_histories import bad_reply, end_with_faults
from tests.unit.worker.lane.proposing import proposed_by
from tests.unit.worker.lane.run_checks import breaks
from tests.unit.worker.lane.run_world import RunProvider, RunWorker, run_context
from tests.unit.worker.lane.world import final_account

Json = dict[str, Any]
KILLS_APART_S = 1.2
STEPS_MAX = 2  # of a run before it ends
NAMED: Json = {"agents": ("support", "best", "planner", "nobody"), "profiles": ("default", "nope")}
USES = ("fact:f", "call:1.0", "call:1.1", "fact:none", "call:9.9")
SCHEMAS: tuple[Json, ...] = ({"type": "strin"}, {"$ref": "http://x/y"}, {"not": {}}, {}, {"a": 1})


class WildProvider(RunProvider):
    """Asks for children of any agent and profile, and with any schema, also what there is not."""

    random: Random

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        self.prompts.append(prompt)
        reply = bad_reply(self.random, 10) or answered(json.dumps(self._said(prompt)))
        self.script = lambda *_: (self.random.uniform(0.01, 0.5), reply)
        return await super(RunProvider, self).ask(prompt, timeout_s=timeout_s)

    def _said(self, prompt: Prompt) -> Json:
        form, random = prompt.system + str(prompt.wire), self.random
        if "element_id" in form:
            return {"reason": "It is short.", "element_id": random.choice(proposed_by(prompt))}
        end = finish(wrapped()) if "finish" in form else actions(says("Joined."))
        if "tool_call" not in form:
            return end if "text_response" in form else wrapped()
        steps = sum(turn.role == "assistant" for turn in prompt.turns)
        is_last = "This is the last step" in str(prompt.turns) or steps >= STEPS_MAX
        if is_last or random.random() < 0.2:
            return end
        return actions(*(self._call(n) for n in range(random.choice([1, 2, 3, 8]))))

    def _call(self, number: int) -> Json:
        random = self.random
        if random.random() < 0.25:
            return call(random.choice(["orders.get", "orders.none"]), order_id=str(number))
        more: Json = {}
        if random.random() < 0.8:
            more["agent"] = random.choice((*NAMED["agents"], "best"))
        if random.random() < 0.3:
            more["profile"] = random.choice(NAMED["profiles"])
        if random.random() < 0.3:
            more["use"] = random.sample(USES, 2)
        if random.random() < 0.15:
            more["json_schema"] = random.choice(SCHEMAS)
        return delegate(f"c{number}", **more)


class MixedStage(DelegatingStage):
    """Three agents, whose limits a number says."""

    def __init__(self, seed: int) -> None:
        random = Random(f"agents/{seed}")
        bounds = {"depth_max": random.choice([1, 2, 3]), "children_max": random.choice([3, 16])}
        share = {**bounds, "split": random.choice(["pool", "equal"]), **NAMED}
        best_of = {"n": random.choice([2, 3]), "profiles": ("default",)}
        fields: Json = {"version": 1, "parallel_max": random.choice([1, 3, 8])}
        self.agents = Agents(
            Agent(AgentDefinition(name=name, instructions="Work.", **more, **fields), tools)
            for name, tools, more in (
                ("support", ("orders.get",), Json()),
                ("planner", ("orders.get",), {"delegate": share}),
                ("best", (), {"best_of": best_of}),
            )
        )
        super().__init__()
        self.wild = self.provider = WildProvider()  # type: ignore[assignment]
        self.wild.random = Random(f"model/{seed}")
        self.worker._leave()
        self.worker = self.new_worker()

    def new_worker(self) -> RunWorker:
        around: LaneContext = run_context(self.provider, **self.settings)
        around.planner.agents = self.agents

        def complete(admitted: Admitted) -> Admitted:
            return replace(admitted, request=self.agents.with_budget(admitted.request))

        return RunWorker(self.broker, replace(around, runs=replace(around.runs, complete=complete)))


async def grown_wild(seed: int) -> MixedStage:
    """One such tree under kills, faults and little budget; what must hold of each tree holds."""
    stage, random = MixedStage(seed), Random(f"life/{seed}")
    budget = random.choice([3, 5, 9, 20, 60])
    context = {"instructions": "Do.", "facts": [{"name": "f", "value": 1}]}
    asked: Json = {"agent": {"name": "planner"}, "context": context, "ttl_s": 600}
    asked["budget"] = {"attempts": budget}
    await end_with_faults(stage, random, KILLS_APART_S, **asked)

    check_tree(stage)
    assert breaks(stage) == [], "the audit of operators finds nothing"
    assert final_account(stage.broker)["spent"]["attempts"] <= budget
    return stage
