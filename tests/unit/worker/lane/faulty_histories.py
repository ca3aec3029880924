"""What befalls histories that are made from a number: bad answers, a fault, workers that die."""

import asyncio
from random import Random
from typing import Any

from services.worker.core.attempt.reply import Reply, Throttled, Unavailable
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.world import done, until

FAULT_SHARE = 0.3  # of the histories
PLACES = 12  # of commits, at one of which the fault is
KILLS_MAX = 3
END_LIMIT_S = 3_000  # of virtual time


def bad_reply(random: Random, one_of: int) -> Reply | None:
    """Each kind of bad reply once in `one_of` calls; None where the call goes well."""
    match random.randrange(one_of):
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


async def end_with_faults(stage: RunStage, random: Random, apart_s: float, **more: Any) -> int:
    """The run `r-1`, a commit that may fail, and kills at most `apart_s` apart; gives how many."""
    await stage.worker.open()
    if random.random() < FAULT_SHARE:
        place = random.randrange(PLACES)
        stage.broker.faults.extend([None] * place + [random.choice(list(Fault))])
    stage.publish("r-1", **more)
    kills = random.randrange(KILLS_MAX + 1)
    for _ in range(kills):
        await asyncio.sleep(random.uniform(0.0, apart_s))
        await stage.crash()
        stage.worker.assign(0)
    await until(lambda: done(stage.broker, stage.names), END_LIMIT_S)
    await stage.end()
    return kills
