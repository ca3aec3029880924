"""Histories of runs: tools that are slow, silent, late or double, people, kills, failing commits.

The lane, its queue and its reader of results are the real ones, on virtual time; the broker is the
one of the lane's own tests, whose transactions are atomic and fenced.
"""

import asyncio
import json
import random
from collections import Counter
from datetime import datetime
from typing import Any

from answerbus.topics import DEAD_LETTERS, RETRIES, STEPS, TOOL_RESULTS
from services.digest import text_digest
from tests.unit.worker.builders import workflow_of
from tests.unit.worker.core.run_builders import actions, call, says, thinks
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.run_checks import check
from tests.unit.worker.lane.run_world import Json, RunProvider, RunStage
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import done, events, until

LIMIT_S = 3_000.0
HANDED_OVER_S = 5.0  # from a result's append to its end, while a worker is there
FAULTS = (None, None, None, None, Fault.REFUSED, Fault.ANSWER_LOST, Fault.HANGS)


class _Model(RunProvider):
    """What each step of each request is, by chance but always the same."""

    seed: int = 0

    async def ask(self, prompt: Any, *, timeout_s: float) -> Any:
        number = sum(turn.role == "assistant" for turn in prompt.turns)
        chance = random.Random(f"{self.seed}/{prompt.request_id}/{prompt.attempt}")
        self.call_s = chance.choice((0.02, 0.1, 0.5, 3.0))
        self.steps = [_answer(chance, number, prompt.request_id)]
        return await super().ask(prompt, timeout_s=timeout_s)


def _answer(chance: random.Random, number: int, name: str) -> Json:
    roll = chance.random()
    if name.startswith("plain"):
        return actions(says("A text."))
    if roll < 0.08:
        return actions(thinks("CANARY"))
    if roll < 0.3 or number >= chance.randint(1, 6):
        return actions(thinks("CANARY"), says("The end."))
    calls = [_call(chance) for _ in range(chance.randint(1, 5))]
    return actions(thinks("CANARY"), says("So."), *calls)


def _call(chance: random.Random) -> Json:
    args: Json = {"order_id": str(chance.randint(1, 9))}
    name = chance.choice(("orders.get", "orders.get", "orders.pay", "orders.rm"))
    return call(name, **(args if chance.random() < 0.9 else {"order_id": "x"}))


def judge(seed: int) -> tuple[str, ...]:
    """What is wrong in the history of that seed; nothing, if all promises held."""
    try:
        run(_history(seed))
    except (AssertionError, TimeoutError) as error:
        return (f"{type(error).__name__}: {error}",)
    return ()


async def _history(seed: int) -> None:
    chance = random.Random(seed)
    stage = RunStage(agent={"parallel_max": chance.choice((1, 2, 8))}, tooling=_tooling(chance))
    stage.provider = _Model(steps=())
    stage.provider.seed = seed
    stage.worker._leave()
    stage.worker = stage.new_worker()
    await stage.worker.open()
    stage.broker.faults.extend(chance.choice(FAULTS) for _ in range(chance.randint(0, 30)))
    doing = [asyncio.create_task(it) for it in (_people(stage, chance), _kills(stage, chance))]
    for number in range(chance.randint(2, 6)):
        await asyncio.sleep(chance.choice((0.0, 0.3, 4.0)))
        name = f"{chance.choice(('run', 'run', 'run', 'plain'))}-{number}"
        more: Json = {"agent": None} if name.startswith("plain") else {}
        if chance.random() < 0.3:
            more["policy"] = {"ordering": "none"}
        budget = {"attempts": chance.choice((3, 30, 30))}
        ttl_s = chance.choice((90, 600, 600))
        workflow = _workflow(number)
        stage.publish(name, workflow_id=workflow, ttl_s=ttl_s, budget=budget, **more)
    await until(lambda: done(stage.broker, stage.names), LIMIT_S)
    for task in doing:
        task.cancel()
    await asyncio.wait(doing)
    await asyncio.sleep(1.0)
    await stage.end()
    check(stage)
    _check_tools(stage)
    _check_cancels(stage)


def _workflow(number: int) -> str:
    return workflow_of(0, number % 2)


def _tooling(chance: random.Random) -> Any:
    ok = {"kind": "ok", "value": "done"}
    failed = {"kind": "error", "code": "not_found", "message": "no"}

    def answers(_: Json) -> list[tuple[float, Json | None]]:
        roll = chance.random()
        if roll < 0.1:
            return []
        if roll < 0.2:
            return [(40.0, ok)]
        if roll < 0.3:
            return [(0.05, ok), (0.06, failed)]
        return [(chance.choice((0.01, 0.3, 5.0)), chance.choice((ok, ok, failed)))]

    return answers


async def _people(stage: RunStage, chance: random.Random) -> None:
    """Approve, deny, do nothing; now and then cancel something."""
    seen: set[str] = set()
    while True:
        await asyncio.sleep(chance.uniform(0.1, 2.0))
        for asked in stage.steps("approval_requested"):
            if asked["call_id"] not in seen and chance.random() < 0.7:
                seen.add(asked["call_id"])
                _decide(stage, chance, asked)
        if chance.random() < 0.03 and stage.names:
            name = chance.choice(stage.names)
            cancel = {"kind": "cancel", "scope": "request", "request_id": name}
            workflow = _workflow(int(name.rpartition("-")[2]))
            stage.control({**cancel, "workflow_id": workflow})


def _decide(stage: RunStage, chance: random.Random, asked: Json) -> None:
    said = {key: asked[key] for key in ("call_id", "args_digest", "workflow_id")}
    if chance.random() < 0.3:  # who looked at other arguments
        wrong = {"args_digest": text_digest("others")}
        stage.control({**said, **wrong, "kind": "approval", "decision": "approved"})
        if chance.random() < 0.5:
            return
    for _ in range(chance.choice((1, 1, 2))):
        decision = chance.choice(("approved", "approved", "denied"))
        stage.control({**said, "kind": "approval", "decision": decision})


async def _kills(stage: RunStage, chance: random.Random) -> None:
    for _ in range(chance.randint(0, 4)):
        await asyncio.sleep(chance.choice((0.05, 0.4, 2.0, 15.0)) * chance.random())
        await stage.crash()
        await asyncio.sleep(chance.choice((0.0, 0.0, 1.0, 50.0)))
        stage.worker.assign(0)


def _check_tools(stage: RunStage) -> None:
    """A2, A4 to A6, A9: who ran what how often, with whose consent; and no thought is told."""
    runs = Counter(name.rpartition("/")[0] for name in stage.tools.ran)
    approved = {
        (event["control"]["call_id"], event["control"]["args_digest"])
        for event in stage.steps("control_applied")
        if event["effect"] == "approved"
    }
    for made in stage.calls():
        if made["tool"] == "pay":
            assert runs[made["call_id"]] == 1, "at most once"
            assert (made["call_id"], made["args_digest"]) in approved, "with a person's consent"
        assert made["tool"] in {"get", "pay"}, "a tool that the agent has"
        assert made["args"]["order_id"].isdecimal(), "with arguments of its schema"
    numbers = Counter((step["request_id"], step["n"]) for step in stage.steps("step"))
    assert set(numbers.values()) <= {1}, "no settled step is asked again"
    told = [turn.text for prompt in stage.provider.prompts for turn in prompt.turns]
    assert "CANARY" not in "".join(told), "no thought in a later prompt"
    assert "CANARY" not in str(events(stage.broker, STEPS, RETRIES, DEAD_LETTERS))
    _check_results(stage)


def _check_results(stage: RunStage) -> None:
    """A result that came in time, to a worker that lived, is the end of its call."""
    tokens = {made["reply"]["token"]: made for made in stage.calls()}
    came: dict[str, datetime] = {}
    for record in stage.broker.log(TOOL_RESULTS).records:
        said = json.loads(record.value or b"{}")
        if said.get("token") in tokens:
            came.setdefault(said["call_id"], record.at)
    for ended in stage.steps("tool_ended"):
        if ended["outcome"]["kind"] == "timed_out" and ended["call_id"] in came:
            after = came[ended["call_id"]] - datetime.fromisoformat(ended["at"])
            assert after.total_seconds() > -HANDED_OVER_S, "a result is not lost"


def _check_cancels(stage: RunStage) -> None:
    """A7: from the commit of a cancellation on there is no call."""
    begun = {(name, attempt): at for name, attempt, at in stage.provider.calls}
    for record in stage.broker.log(STEPS).records:
        event = json.loads(record.value or b"{}")
        if event["kind"] == "control_applied" and event["effect"] == "cancelled":
            at = (record.at - stage.broker.clock.now()).total_seconds()
            moment = asyncio.get_running_loop().time() + at
            late = [
                key for key, when in begun.items() if key[0] in event["requests"] and when > moment
            ]
            assert late == [], "no call after a cancellation"
