"""Histories of runs that choose, each from a number: little budget, faults, workers that die."""

import asyncio
from random import Random
from typing import Any

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, Throttled, Unavailable
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.proposing import ProposingProvider, ProposingStage, check_choice
from tests.unit.worker.lane.virtual import EverythingWaitsError, run
from tests.unit.worker.lane.world import done, final_account, terminals, until

Json = dict[str, Any]


class MoodyProposers(ProposingProvider):
    """Proposals are slow, wrong, throttled or away, as a number says; selectors name what is not.

    The last attempt of a selector is right: what is proved is that it has one.
    """

    random: Random

    def said_to(self, prompt: Prompt) -> Reply:
        self.child_s = self.random.uniform(0.01, 0.6)
        if ".call." in prompt.request_id and (found := self._mood()) is not None:
            return found
        return super().said_to(prompt)

    def _mood(self) -> Reply | None:
        match self.random.randrange(8):
            case 0:
                return answered("{")
            case 1:
                return Throttled(retry_after_s=0.2)
            case 2:
                return Unavailable(status=503, ran=False)
            case 3:
                return Unavailable(status=500, ran=True)
            case _:
                return None


async def chosen(limit: int, number: int, seed: int) -> None:
    """No more is spent than there is; where a proposal is left, one of them is the answer."""
    random = Random(f"{limit}/{number}/{seed}")
    stage = ProposingStage(agent={"parallel_max": random.choice([1, 2, 8])}, n=number)
    stage.provider = MoodyProposers(choose=random.choice)
    stage.provider.random = random
    stage.worker._leave()
    stage.worker = stage.new_worker()
    await stage.worker.open()
    if random.random() < 0.3:
        stage.broker.faults.extend([None] * random.randrange(12) + [random.choice(list(Fault))])
    stage.publish("r-1", budget={"attempts": limit}, ttl_s=600)
    kills = random.randrange(4)
    for _ in range(kills):
        await asyncio.sleep(random.uniform(0.0, 0.8))
        await stage.crash()
        stage.worker.assign(0)
    await until(lambda: done(stage.broker, stage.names), 3_000)
    await stage.end()

    check_choice(stage)
    assert final_account(stage.broker)["spent"]["attempts"] <= limit
    assert len(stage.children()) <= min(number, limit - 1)
    ended = [outcome["kind"] for outcome in stage.ended().values()]
    if kills == 0 and not stage.broker.faults and "ok" in ended:
        assert terminals(stage.broker)["r-1"] == "result", "the selector has its step"


def judge(seed: int) -> str | None:
    """What is wrong with the history of a number, if anything."""
    try:
        run(chosen(3 + seed % 7, 2 + seed % 4, seed))
    except (AssertionError, TimeoutError, EverythingWaitsError) as error:
        return str(error) or type(error).__name__
    return None
