"""Histories of trees, each from a number: little budget, providers that fail, workers that die."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from answerbus.topics import ATTEMPTS
from services.worker.core.attempt.reply import Reply
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.delegating import (
    DelegatingProvider,
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.faulty_histories import bad_reply, end_with_faults
from tests.unit.worker.lane.virtual import EverythingWaitsError, run
from tests.unit.worker.lane.world import done, events, final_account, terminals, until

Json = dict[str, Any]
KILLS_APART_S = 1.2
PER_LEVEL = (3, 4, 4)  # 1 + 3 + 12 + 48 requests


class UnreliableProvider(DelegatingProvider):
    """Children are slow, wrong, throttled or away, as a number says."""

    random: Random

    async def ask(self, prompt: Any, *, timeout_s: float) -> Reply:
        if ".call." in prompt.request_id and (found := bad_reply(self.random, 12)) is not None:
            self.calls.append((prompt.request_id, prompt.attempt, 0.0))
            await asyncio.sleep(self.random.uniform(0.01, 0.3))
            return found
        self.child_s = self.random.uniform(0.01, 0.6)
        return await super().ask(prompt, timeout_s=timeout_s)


def unreliable(stage: DelegatingStage, random: Random) -> None:
    provider = UnreliableProvider(steps=stage.provider.steps, fallback=stage.provider.fallback)
    provider.random = random
    stage.provider = provider
    stage.worker._leave()
    stage.worker = stage.new_worker()


async def squeezed(limit: int, children: int, seed: int, ttl_s: int = 3_000) -> None:
    """No more is spent than there is, and no child fails while anything is left."""
    random = Random(f"{limit}/{children}/{seed}")
    half = -(-children // 2)
    first = [delegate(f"c{number}") for number in range(min(children, 32))]
    more = [delegate(f"d{number}") for number in range(children - len(first))]
    steps = (actions(*first), *([actions(*more)] if more else []), actions(says("Joined.")))
    split = random.choice(["pool", "pool", "equal"])
    agent = {"parallel_max": random.choice([1, half, 32]) if half < 32 else 32}
    stage = DelegatingStage(steps, agent=agent, children_max=64, split=split)
    unreliable(stage, random)
    await end_with_faults(stage, random, KILLS_APART_S, budget={"attempts": limit}, ttl_s=ttl_s)
    check_tree(stage)

    spent = final_account(stage.broker)["spent"]["attempts"]
    assert spent <= limit
    failed = [one for one in stage.children() if one["kind"] == "dead_letter"]
    exhausted = [one for one in failed if one["cause"]["kind"] == "budget_exhausted"]
    if exhausted and split == "pool" and terminals(stage.broker)["r-1"] == "result":
        assert spent == limit, "a child failed while something was left"
    if spent < limit:
        caps = {asked_call["call_id"]: asked_call.get("cap") for asked_call in stage.asked_calls()}
        counted = Counter(
            event["request_id"] for event in events(stage.broker, ATTEMPTS) if event["counted"]
        )
        for one in exhausted if split == "equal" else ():
            assert counted[one["request_id"]] == caps[one["parent"]["call_id"]], "of its own part"


async def grown(seed: int) -> None:
    """A tree of 64 requests on three levels below its root's."""
    random = Random(seed)

    def answer(name: str, number: int) -> Json:
        depth = name.count(".call.")
        if depth == len(PER_LEVEL):
            return wrapped()
        return finish(wrapped()) if number else asked(depth)

    def asked(depth: int) -> Json:
        again = {} if depth + 1 == len(PER_LEVEL) else {"agent": "support"}
        return actions(*(delegate(f"c{number}", **again) for number in range(PER_LEVEL[depth])))

    stage = DelegatingStage((asked(0), actions(says("Joined."))), children_max=64)
    stage.provider.fallback = answer
    await end_with_faults(stage, random, KILLS_APART_S)
    check_tree(stage)

    assert len(stage.children()) == 63
    assert set(terminals(stage.broker).values()) == {"result"}
    (root,) = [outcome for outcome in stage.outcomes() if outcome["request_id"] == "r-1"]
    assert root["run"]["children"] == 63


async def nested(seed: int) -> None:
    """Runs that delegate to runs with too little for all: each that waits can end."""
    random = Random(f"nested/{seed}")
    deeper = actions(*(delegate(f"d{number}") for number in range(3)))
    first = (delegate(f"c{number}", agent="support") for number in range(3))
    steps = (actions(*first), actions(says("Joined.")))
    stage = DelegatingStage(steps, split=random.choice(["pool", "equal"]))
    stage.provider.fallback = lambda name, number: (
        wrapped() if name.count(".call.") > 1 else finish(wrapped()) if number > 1 else deeper
    )
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": random.randrange(2, 40)}, ttl_s=60)
    await until(lambda: done(stage.broker, stage.names), 3_000)
    await stage.end()
    check_tree(stage)
    ends = {outcome["request_id"]: outcome["kind"] for outcome in stage.outcomes()}
    for step in stage.steps("step"):
        assert ends[step["request_id"]] == "result", "a run that waited could not end"


def judge(seed: int) -> str | None:
    """What is wrong with the history of a number, if anything."""
    try:
        run(squeezed(5, 4, seed, ttl_s=60) if seed % 2 else nested(seed))
    except (AssertionError, TimeoutError, EverythingWaitsError) as error:
        return str(error) or type(error).__name__
    return None
