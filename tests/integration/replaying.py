"""`answerbus replay` on a test's own topics, killed in the middle, and what is left there."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REQUESTS, RESULTS
from tests.integration.bus import ANSWERED, Bus
from tests.integration.command_line import Ended, answerbus, start
from tests.integration.dead_letters import JsonObject, dead_letters, publish, repaired
from tests.integration.forked import Command

ANSWERING = [{"reply": ANSWERED}]
BUDGET = 2
_CONTRACT = {"kind": "contract", "name": "plan_proposal", "version": 1}
_PATCH = [{"op": "replace", "path": "/answer_schema", "value": _CONTRACT}]
MENDING = ("--edit", json.dumps(_PATCH), "--profile", "default", "--budget", str(BUDGET))
"""What lets letters of any cause be answered."""
KILLED_AT = ((0.05, "read_uncommitted"), (0.4, "read_committed"), (0.75, "read_uncommitted"))
"""The share of requests that were sent by then: in the midst of a transaction, or just behind."""
LIMIT_S = 120.0


class Replay:
    """`answerbus replay` on a test's own topics."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._config = ("--config", str(bus.config(ANSWERING)))

    async def __call__(self, *arguments: str) -> Ended:
        bus = self._bus
        return await answerbus(bus.bootstrap, bus.prefix, "replay", *arguments, *self._config)

    async def data(self, *arguments: str, code: int = 0) -> Any:
        """What it prints as JSON."""
        ended = await self(*arguments, "--json")
        assert ended.code == code, ended
        return json.loads(ended.out)

    async def begin(self, *arguments: str) -> Command:
        """A process that goes on by itself."""
        bus = self._bus
        return await start(bus.bootstrap, bus.prefix, "replay", *arguments, *self._config)


async def request_ids(bus: Bus) -> Counter[str]:
    """What is in the requests topic, and how often, once all transactions have ended."""
    await bus.settled()
    return Counter(body["request_id"] for body in await bus.everything(REQUESTS))


@dataclass(frozen=True)
class Figures:
    """How long it took."""

    dead_letters: int
    groups_s: float
    run_s: float


async def killed_three_times(bus: Bus, replay: Replay, count: int, folder: Path) -> Figures:
    """Replay and import `count` letters of twelve causes, with three kills, and check the end."""
    found = dead_letters(count)
    await publish(bus, found)
    groups_s = await grouped_s(replay, found)
    bus.start_worker(bus.config(ANSWERING))
    command = ("run", *MENDING, "--where", "status=open", "--yes", "--rate", str(count / 4))
    for share, isolation in KILLED_AT:
        await kill(bus, await replay.begin(*command), int(count * share), isolation)
    began = time.monotonic()
    ended = await replay("run", *MENDING, "--yes")
    run_s = time.monotonic() - began
    assert ended.code == 1, ended  # what has no request is held back
    await import_repaired(replay, found, folder)
    await bus.terminals(2 * count, LIMIT_S)
    await assert_each_is_answered_once(bus, found)
    return Figures(count, groups_s, run_s)


async def grouped_s(replay: Replay, found: Sequence[JsonObject]) -> float:
    """How long it takes to group the letters from cold."""
    began = time.monotonic()
    groups = await replay.data("groups", "--by", "cause")
    took_s = time.monotonic() - began
    assert Counter({g["group"]["cause"]: g["count"] for g in groups}) == Counter(
        body["cause"]["kind"] for body in found
    )
    return took_s


async def kill(bus: Bus, process: Command, at: int, isolation: str) -> None:
    """End it as a crash would, once so many requests were sent."""
    await seen_on_the_wire(bus, process, at, isolation)
    process.kill()
    await process.communicate()


async def seen_on_the_wire(
    bus: Bus,
    process: Command,
    count: int,
    isolation: str = "read_uncommitted",
) -> None:
    """Wait until a reader has seen so many requests."""
    seen = 0
    async with asyncio.timeout(LIMIT_S), bus.reader([bus.topic(REQUESTS)], isolation) as reader:
        while seen < count:
            assert process.returncode is None, "it has ended already"
            seen += sum(map(len, (await reader.getmany(timeout_ms=20)).values()))


def repair(exported: Sequence[JsonObject], found: Sequence[JsonObject]) -> list[str]:
    """Do what an operator does to the files; their names."""
    bodies = {body["dead_letter_id"]: body for body in found if body["request"] is None}
    assert {one["dead_letter_id"] for one in exported} == set(bodies)
    for one in exported:
        Path(one["file"]).write_text(json.dumps(repaired(bodies[one["dead_letter_id"]])))
    return [one["file"] for one in exported]


async def import_repaired(replay: Replay, found: Sequence[JsonObject], folder: Path) -> None:
    """Export what is not a request, repair it, and import it, twice."""
    files = repair(await replay.data("export", str(folder)), found)
    for expected in (len(files), 0):
        done = await replay.data("import", *files, "--yes")
        assert (done["end"], done["replayed"], done["held_back"]) == ("done", expected, [])


async def assert_each_is_answered_once(bus: Bus, found: Sequence[JsonObject]) -> None:
    """One request, one result, one link and attempts within the budget for each letter."""
    ids = {body["dead_letter_id"] for body in found}
    sent = await bus.everything(REQUESTS)
    links = [e for e in await bus.everything(DEAD_LETTERS) if e["kind"] == "replayed"]
    results = await bus.everything(RESULTS)
    attempts = Counter(a["account_id"] for a in await bus.everything(ATTEMPTS) if a["counted"])

    assert Counter(body["replay"]["dead_letter_id"] for body in sent) == Counter(ids)
    assert max(Counter(body["request_id"] for body in sent).values()) == 1
    pairs = Counter((link["dead_letter_id"], link["request_id"]) for link in links)
    assert pairs == Counter((b["replay"]["dead_letter_id"], b["request_id"]) for b in sent)
    assert pairs == Counter((b["replay"]["dead_letter_id"], b["request_id"]) for b in results)
    limits = {body["replay"]["account"]: body["budget"]["attempts"] for body in sent}
    assert len(limits) == len(ids)
    assert attempts.keys() == limits.keys()
    assert all(attempts[account] <= limit for account, limit in limits.items())
