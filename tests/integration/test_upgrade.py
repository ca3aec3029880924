"""`make test-upgrade`: a rolling upgrade out of the history loses and doubles nothing."""

import asyncio
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from answerbus.topics import ATTEMPTS, LEDGER
from tests.integration.bus import ANSWERED, Bus, request
from tests.integration.evidence import JsonObject
from tests.integration.history import is_in_history, tree_of

pytestmark = pytest.mark.kafka

EACH = 40  # requests, at each step
WORKFLOWS = 16
LIMIT_S = 120.0
BLOCKED = re.compile(r"lane \d+ (blocked|stays shut)")  # in the log, as versions word it
SHUT_S = 30.0  # then what an old worker has not answered is in lanes that it cannot open
RULES: list[JsonObject] = [
    {"reply": ANSWERED, "latency_s": {"median_s": 0.2, "sigma": 0.3, "max_s": 1.0}}
]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the version before."""
    version = os.environ.get("OLD_VERSION")  # noqa: TID251 - which one, says who runs this
    if not version:
        pytest.skip("OLD_VERSION names no version: `make test-upgrade`")
    if not is_in_history(version):
        pytest.skip(f"the history does not have {version}")
    return tree_of(version, tmp_path_factory.mktemp("old"))


async def answered(bus: Bus, count: int) -> list[str]:
    """Who has had a terminal, once that many have."""
    found = await bus.terminals(count, LIMIT_S)
    assert len(found) >= count, f"{len(found)} of {count}"
    return [event["request_id"] for event in found]


async def test_old_and_new_workers_share_the_work_and_each_request_ends_once(
    bus: Bus, old: Path
) -> None:
    def bodies(step: int) -> list[JsonObject]:
        numbers = range(step * EACH, (step + 1) * EACH)
        return [
            request(f"r-{n}", f"order-{n % WORKFLOWS}", budget={"attempts": 99}) for n in numbers
        ]

    config = bus.config(RULES, worker={"max_in_flight": 8})
    before = bus.start_worker(config, tree=old)
    await bus.publish(bodies(0))
    await answered(bus, EACH)

    after = bus.start_worker(config)
    await bus.publish(bodies(1))
    await answered(bus, 2 * EACH)
    assert await asyncio.to_thread(before.terminate) == 0, "it drains, and leaves"
    await bus.publish(bodies(2))
    await bus.publish(bodies(0))  # copies of what the old one closed
    await answered(bus, 3 * EACH)

    again = bus.start_worker(config, tree=old)  # and back, while no ledger has a chunk
    await bus.publish(bodies(3))
    if len(await bus.terminals(4 * EACH, SHUT_S)) < 4 * EACH:
        assert BLOCKED.search(again.log_file.read_text()), "it leaves a lane to newer ones"
    assert await asyncio.to_thread(again.terminate) == 0
    found = await answered(bus, 4 * EACH)
    assert await asyncio.to_thread(after.terminate) == 0

    assert Counter(found) == Counter({f"r-{n}": 1 for n in range(4 * EACH)})
    attempts = await bus.everything(ATTEMPTS)
    assert {attempt["outcome"] for attempt in attempts} <= {"result", "released"}
    assert sum(attempt["counted"] for attempt in attempts) == len(bus.calls()) == 4 * EACH
    closed = [event for event in await bus.everything(LEDGER) if event["kind"] == "closed"]
    assert len({event["closes"] for event in closed}) == 4 * EACH
