"""`answerbus top`: status, outcomes, profiles, lanes and open dead letters in a terminal, live."""

import asyncio
import logging
import time
from collections import Counter

import typer
from rich.live import Live

from services.command_line import AsJson, Config, Workers, bus_of, screen, stdout
from services.commands.terminal.top_board import MINUTES, TopFacts, as_data, board_of
from services.console.tasks.feed import Feed
from services.console.tasks.lanes_now import lanes_now
from services.console.tasks.polling import Poller
from services.console.tasks.status_now import status_now
from services.settings.settings import Settings, SetUpError, from_environment
from services.text.escaping import json_lines

EVERY_S = 1.0
POLLED_WITHIN_S = 10.0  # offsets and workers, before data are printed without them


def top(*, worker: Workers = None, as_json: AsJson = False, config: Config = None) -> None:
    """Show what goes on, live; with --json, or where no terminal is, once. Ctrl-C ends it."""
    settings = from_environment(config)
    if worker:
        chosen = settings.console.model_copy(update={"workers": tuple(worker)})
        settings = settings.model_copy(update={"console": chosen})
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the board says what is wrong
    asyncio.run(_top(settings, as_json=as_json))


async def _top(settings: Settings, *, as_json: bool) -> None:
    bus, console = bus_of(settings.kafka), stdout()
    feed = Feed(bus)
    poller = Poller(bus, settings.kafka.worker_group, settings.console.workers)
    tasks = [asyncio.create_task(work) for work in (feed.run(), poller.run())]
    try:
        if as_json or not console.is_terminal:
            await _read(feed, poller)
            if feed.progress.error is not None:
                raise SetUpError(feed.progress.error)
            facts = facts_of(feed, poller, _now_ms())
            if as_json:
                typer.echo(json_lines(as_data(facts)))
            else:
                console.print(board_of(facts))
            return
        with Live(console=screen(), screen=True, auto_refresh=False) as live:
            while True:
                live.update(board_of(facts_of(feed, poller, _now_ms())), refresh=True)
                await asyncio.sleep(EVERY_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(feed: Feed, poller: Poller) -> None:
    """Until the topics are read and all was asked once; or until it is known that it cannot be."""
    while not feed.progress.caught_up and feed.progress.error is None:
        await asyncio.sleep(0.05)
    deadline = time.monotonic() + POLLED_WITHIN_S
    while not poller.has_asked_all and time.monotonic() < deadline:
        await asyncio.sleep(0.05)


def facts_of(feed: Feed, poller: Poller, now_ms: int) -> TopFacts:
    state, polled = feed.state, poller.results
    inferred = dict.fromkeys(state.board.unhealthy(now_ms), "no recent call was answered")
    reported = {profile.name: profile.text for profile in polled.profiles if profile.problem}
    return TopFacts(
        state.board.window(now_ms, MINUTES, MINUTES),
        state.board.schema_labels,
        lanes_now(feed, poller, now_ms),
        None if polled.lag is None else sum(polled.lag.values()),
        state.lanes.in_flight.total(),
        len(state.board.waits),
        Counter(
            dead_letter.why for dead_letter in state.dead_letters if dead_letter.status == "open"
        ),
        {**inferred, **reported},
        status_now(feed, poller, now_ms, operator=True),
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
