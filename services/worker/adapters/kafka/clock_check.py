"""Measures the distance to the broker's clock: at start, and while a worker has nothing to do.

Each commit measures it, too (see adapters/kafka/shard.py).
"""

import logging

from aiokafka.errors import KafkaError

from answerbus.client.bootstrap import AIOKafkaClient
from answerbus.client.bounded import bounded, close
from services.kafka.clock import controller_time_ms
from services.kafka.options import client_options
from services.kafka.planning.clock_offset import clock_problem
from services.settings.settings import KafkaSettings, SetUpError
from services.worker.adapters.clock import BrokerClock
from services.worker.tasks.rounds import rounds

ASKS = 3  # the first includes the connecting
ASK_TIMEOUT_S = 10.0
ASK_EVERY_S = 60.0  # unless a commit has shown the time meanwhile
LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)


async def check_clock(settings: KafkaSettings, clock: BrokerClock) -> None:
    """Measure at start. Raises SetUpError where this machine's clock is too far off."""
    await _ask(settings, clock)
    if not clock.is_measured:
        _log.warning(
            "the cluster does not report its time (no KRaft, or no right to describe it): it is "
            "measured when a lane is opened"
        )
    if problem := clock_problem(clock.ahead_s):
        raise SetUpError(f"{problem[0].upper()}{problem[1:]}; then start the worker again.")


async def watch_clock(settings: KafkaSettings, clock: BrokerClock) -> None:
    """Keep it measured for ever, and log when this machine's clock becomes wrong, or right."""
    was_wrong = False

    async def look() -> None:
        nonlocal was_wrong
        problem = clock_problem(clock.ahead_s)
        if bool(problem) != was_wrong:
            was_wrong = bool(problem)
            _log.warning(problem or "clock of this machine is correct again")
        if clock.age_s > ASK_EVERY_S:
            await _ask(settings, clock)

    await rounds("the measuring of the clock", look, LOOK_EVERY_S)


async def _ask(settings: KafkaSettings, clock: BrokerClock) -> None:
    """Ask the controller for its time, if it shows it."""
    client = AIOKafkaClient(**client_options(settings))
    try:
        await bounded(_measure(client, clock), ASK_TIMEOUT_S)
    except (KafkaError, OSError) as error:  # a time-out is one
        _log.debug("the cluster was not asked for its time: %s", type(error).__name__)
    finally:
        await close(client.close())


async def _measure(client: AIOKafkaClient, clock: BrokerClock) -> None:
    await client.bootstrap()
    for _ in range(ASKS):
        before_s = clock.steady_s()
        broker_ms = await controller_time_ms(client)
        if broker_ms is not None:
            clock.set_broker_time(broker_ms, before_s, clock.steady_s())
