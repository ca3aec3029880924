"""Each alert made to fire by a fault, its runbook followed, and resolved: `make alerts`.

Times in the rules are a sixtieth, so that a run takes minutes; see tests/alerts/rules.py.
"""

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.kafka import start_broker
from tests.alerts.prometheus import Prometheus, prometheus
from tests.alerts.rules import names, quick_rules
from tests.alerts.runbooks import CALL_TIMEOUT_S, RUNBOOKS, Holds
from tests.alerts.stage import PARTITIONS, Stage
from tests.infra.compose import ROOT
from tests.integration.bus import ANSWERED

FIRE_LIMIT_S = 300.0
RESOLVE_LIMIT_S = 240.0
FOLLOW_LIMIT_S = 60.0  # for one sentence of a runbook
MANY = PARTITIONS * 1_500
TOOL = {
    "args_schema": {"type": "object"},
    "delivery": "at_most_once",
    "timeout_s": float(CALL_TIMEOUT_S),
}
CARD = {
    "kind": "toolset",
    "toolset": "shop",
    "tools": [{"name": "echo", **TOOL}, {"name": "pay", "approval": "always", **TOOL}],
}
AGENT = """
[agents.support]
instructions = "You say phrases again."
tools = ["shop.echo", "shop.pay"]
"""


def _calls(tool: str) -> dict[str, Any]:
    action = {"kind": "tool_call", "name": f"shop.{tool}", "args": {}}
    return {"kind": "answered", "json": {"actions": [action]}}


@asynccontextmanager
async def providers(stage: Stage) -> AsyncIterator[None]:
    """Keys that are refused, a silent provider, dear, refused and broken answers, late requests."""
    costly = {**ANSWERED, "usage": {"input_tokens": 100_000, "output_tokens": 100_000}}
    replies = {
        "sick": {"kind": "rejected", "scope": "profile", "status": 401},
        "silent": {"kind": "unavailable"},
        "costly": costly,
        "refusing": {"kind": "refused", "reason": "no"},
        "broken": {"kind": "answered", "content": "{"},
        "slow": {"kind": "hang"},
    }
    rules = [{"when": {"contains": name}, "reply": reply} for name, reply in replies.items()]
    price = "[profiles.costly.price]\ninput_usd = 10.0\noutput_usd = 10.0\n"
    profiles = "".join(stage.bus.scripted(name) for name in replies if name != "costly")
    stage.start(rules, profiles + stage.bus.scripted("costly") + price)
    feeding = asyncio.create_task(_feed(stage, replies))
    yield
    feeding.cancel()
    stage.start_well()


async def _feed(stage: Stage, profiles: Iterable[str]) -> None:
    while True:
        for name in profiles:
            ttl_s = 2 if name == "slow" else 3_600
            more = {"budget": {"attempts": 2}, "ttl_s": ttl_s}
            await stage.publish(5, instructions=name, profile=name, **more)
        await asyncio.sleep(1)


@asynccontextmanager
async def spent_budget(stage: Stage) -> AsyncIterator[None]:
    """A tenant that uses up its day, in a deployment that has the topics of runs."""
    await stage.add_run_topics()
    stage.start([{"reply": ANSWERED}], '[budgets."tenant:*"]\ncalls = {day = 5}\n')
    await stage.publish(10, labels={"tenant": "acme"})
    yield
    stage.start_well()


@asynccontextmanager
async def backlog(stage: Stage) -> AsyncIterator[None]:
    """More requests than are answered."""
    stage.start([{"reply": {"kind": "hang"}}])
    await stage.publish(MANY)
    yield
    stage.start_well()


@asynccontextmanager
async def standstill(stage: Stage) -> AsyncIterator[None]:
    """A process that gets no time."""
    await stage.stand_still(6)
    yield


@asynccontextmanager
async def fenced(stage: Stage) -> AsyncIterator[None]:
    """Somebody else takes the producers of the lanes."""

    async def fence() -> None:
        while True:
            await stage.fence()
            await stage.publish(2 * PARTITIONS)
            await asyncio.sleep(1)

    fencing = asyncio.create_task(fence())
    yield
    fencing.cancel()


@asynccontextmanager
async def retention(stage: Stage) -> AsyncIterator[None]:
    """Requests that are deleted before a worker is back to read them."""
    stage.stop()
    await stage.publish(100)
    await stage.delete_requests()
    stage.start_well()
    yield


@asynccontextmanager
async def frozen_broker(stage: Stage) -> AsyncIterator[None]:
    """Kafka answers nothing while calls are in flight."""
    stage.start([{"reply": ANSWERED, "latency_s": 2.0}])
    await stage.opened()
    await stage.publish(200)
    with stage.silent_broker():
        yield
    await stage.opened()  # by itself, as the runbook says
    stage.start_well()


@asynccontextmanager
async def wrong_clock(stage: Stage) -> AsyncIterator[None]:
    """A machine whose clock is ahead."""
    with stage.wrong_clock():
        yield
    stage.start_well()


@asynccontextmanager
async def wrong_settings(stage: Stage) -> AsyncIterator[None]:
    """A settings file that is no TOML."""
    with stage.wrong_settings():
        yield


@asynccontextmanager
async def silent_tools(stage: Stage) -> AsyncIterator[None]:
    """A tool that no server serves, called again and again, and one that awaits a person."""
    await stage.idle()  # or the run waits behind requests that this script answers wrongly
    await stage.announce(CARD)
    rules = [{"when": {"contains": "settle"}, "reply": _calls("pay")}, {"reply": _calls("echo")}]
    stage.start(rules, AGENT)
    run: dict[str, Any] = {"agent": {"name": "support"}, "answer_schema": {"kind": "text"}}
    await stage.publish(1, instructions="settle", **run)
    feeding = asyncio.create_task(_feed_runs(stage, run))
    yield
    feeding.cancel()
    stage.start_well()


async def _feed_runs(stage: Stage, run: dict[str, Any]) -> None:
    while True:
        await stage.publish(5, instructions="echo", **run)
        await asyncio.sleep(1)


@asynccontextmanager
async def no_topic(stage: Stage) -> AsyncIterator[None]:
    """The requests topic is gone."""
    await stage.delete_topic()
    yield  # the runbook makes it again


@asynccontextmanager
async def no_worker(stage: Stage) -> AsyncIterator[None]:
    """Nobody works."""
    stage.stop()
    yield
    stage.start_well()


FAULTS = (
    (
        providers,
        *("ProfileSick", "ProviderSilent", "DeadLettersGrowing", "SpendHigh", "DeadlineMisses"),
        *("RefusalsHigh", "RepairsHigh"),
    ),
    (standstill, "LoopStalls"),
    (fenced, "LanesReopen"),
    (wrong_clock, "ClockOff"),
    (wrong_settings, "SettingsRefused"),
    (retention, "RequestsLost"),
    (backlog, "Lag"),
    (frozen_broker, "KafkaAway", "LaneStuck"),
    (silent_tools, "ToolSilent", "ApprovalsOld", "RunsRepeat"),
    (spent_budget, "BudgetNearlySpent"),
    (no_worker, "NoWorker"),
    (no_topic, "RequestsNotRead"),
)


class Unseen(Exception):
    """An alert did not fire, or was not resolved, within its limit."""


async def seconds_until(
    server: Prometheus, alerts: Iterable[str], state: str, limit_s: float
) -> dict[str, float]:
    """When each was first in that state, from now on. Raises Unseen."""
    began, found = time.monotonic(), dict[str, float]()
    missing = set(alerts)
    while missing:
        now = server.alerts()
        took_s = time.monotonic() - began
        reached = {name for name in missing if now[name] == state}
        found |= dict.fromkeys(reached, took_s)
        missing -= reached
        if missing and took_s > limit_s:
            raise Unseen(f"not {state} within {limit_s:.0f} s: {sorted(missing)}; {now}")
        await asyncio.sleep(0.2)
    return found


async def tried(
    server: Prometheus, stage: Stage, say: Callable[[str], None], only: Collection[str]
) -> None:
    """Each alert is quiet, fires by its fault, and is resolved; runbooks hold. Raises Unseen."""
    wrong = list[str]()
    for fault, *short in FAULTS:
        if only and fault.__name__ not in only:
            continue
        alerts = [f"Answerbus{name}" for name in short]
        await seconds_until(server, alerts, "inactive", RESOLVE_LIMIT_S)
        runbooks = [RUNBOOKS[name] for name in short]
        async with fault(stage):
            fired = await seconds_until(server, alerts, "firing", FIRE_LIMIT_S)
            for runbook in runbooks:
                wrong += await follow(stage, runbook.page, {**runbook.seen, **runbook.done})
        resolved = await seconds_until(server, alerts, "inactive", RESOLVE_LIMIT_S)
        for name, runbook in zip(alerts, runbooks, strict=True):
            wrong += await follow(stage, runbook.page, runbook.over)
            count = len(runbook.seen) + len(runbook.done) + len(runbook.over)
            say(
                f"{name:28} fired after {fired[name]:5.1f} s, resolved after "
                f"{resolved[name]:5.1f}; {runbook.page}.md: {count} sentences tried"
            )
    if wrong:
        raise Unseen("\n".join(wrong))


async def follow(stage: Stage, page: str, sentences: Mapping[str, Holds]) -> list[str]:
    """What a runbook says, one sentence after the other; gives those that are not so."""
    wrong = list[str]()
    for sentence, holds in sentences.items():
        until_s = time.monotonic() + FOLLOW_LIMIT_S
        while not await holds(stage):
            if time.monotonic() > until_s:
                what = f"not so within {FOLLOW_LIMIT_S:.0f} s: {page}.md: {sentence}"
                wrong.append(f"{what}; {stage.page('/ready')}")
                break  # the others are tried all the same
            await asyncio.sleep(0.2)
    return wrong


def asked(server: Prometheus) -> tuple[int, int]:
    """The dashboard's queries: how many there are, and how many have an answer now."""
    panels = json.loads((ROOT / "infra/grafana/answerbus.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    texts = [
        server.ask("query", query=re.sub(r"\$(instance|label)", ".*", query))["result"]
        for query in queries
    ]
    return len(texts), sum(map(bool, texts))


async def main(say: Callable[[str], None], only: Collection[str] = ()) -> None:
    """All of it, or some faults by name. Raises Unseen, SetupError."""
    covered = {f"Answerbus{name}" for _, *short in FAULTS for name in short}
    assert covered == set(names()) == {f"Answerbus{name}" for name in RUNBOOKS}
    with tempfile.TemporaryDirectory(prefix="alerts-") as place:
        folder = Path(place)
        with start_broker(folder / "kafka") as broker:
            stage = Stage(broker, folder)
            await stage.set_up()
            stage.start_well()
            try:
                with prometheus(folder, quick_rules(), [stage.address]) as server:
                    await stage.publish(50)
                    await tried(server, stage, say, only)
                    there, answered = asked(server)
                    say(f"dashboard: {answered} of {there} queries have an answer now")
            finally:
                stage.stop()


if __name__ == "__main__":
    asyncio.run(main(Console(highlight=False, soft_wrap=True).print, sys.argv[1:]))
