"""What runs in the background write, with a writer that only remembers it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from answerbus.client.bus import Bus
from answerbus.dead_letter import Dismissed
from answerbus.limits import REASON_BYTES_MAX
from answerbus.registry import Registry
from services.console.tasks import jobs as jobs_module
from services.console.tasks.feed import Feed
from services.console.tasks.jobs import Action, Jobs
from services.console.views.replay_form import FIELD_CHARS_MAX, ReplayForm
from services.operators.adapters.writer import DeadLetterChange
from services.operators.dead_letters.forecast import KnownNames
from services.operators.dead_letters.prepare_replay import ReplayOrder
from tests.unit.console.context import NOWHERE
from tests.unit.operators.stored_examples import NOON_MS, stored


class Writer:
    def __init__(self) -> None:
        self.written: list[DeadLetterChange] = []

    async def commit(self, changes: Sequence[DeadLetterChange]) -> None:
        self.written += changes


async def done(
    action: Action,
    feed: Feed,
    order: ReplayOrder,
    monkeypatch: pytest.MonkeyPatch,
) -> list[DeadLetterChange]:
    """What a run of all letters of the feed has written."""
    writer = Writer()

    @asynccontextmanager
    async def writing(_: Bus) -> AsyncIterator[Writer]:
        yield writer

    async def at_once() -> None:
        pass

    monkeypatch.setattr(jobs_module, "writing", writing)
    monkeypatch.setattr(feed, "catch_up_with_dead_letters", at_once)
    jobs = Jobs(NOWHERE, feed, KnownNames(None, Registry()), lambda: NOON_MS / 1000)
    job = jobs.start(action, [*feed.state.dead_letters], order, ReplayForm())
    async with asyncio.timeout(10):
        while not job.finished:
            await asyncio.sleep(0)
    assert (job.error, job.done) == (None, len(writer.written))
    return writer.written


async def test_a_reason_in_dead_letters_of_several_bytes_is_cut_to_what_the_topic_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Feed(NOWHERE)
    feed.state.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))
    reason = "漢" * FIELD_CHARS_MAX  # what the form lets through

    (change,) = await done("dismiss", feed, ReplayOrder("夜@acme", reason), monkeypatch)

    assert isinstance(change.done, Dismissed)
    assert change.done.by == "夜@acme"
    assert 0 < len(change.done.reason.encode()) <= REASON_BYTES_MAX


async def test_only_what_was_dismissed_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(NOWHERE)
    for offset, name in enumerate(("open", "aside", "replayed")):
        dead_letter = f"{name}.dead-letter"
        feed.state.take(
            stored("dead_letter/unknown_profile", NOON_MS, offset, dead_letter_id=dead_letter)
        )
    feed.state.take(stored("dismissed/dismissed", offset=3, dead_letter_id="aside.dead-letter"))
    feed.state.take(stored("replayed/unchanged", offset=4, dead_letter_id="replayed.dead-letter"))

    (change,) = await done("reopen", feed, ReplayOrder("ops@acme", "needed"), monkeypatch)

    assert isinstance(change.done, Dismissed)
    assert (change.done.dead_letter_id, change.done.undone) == ("aside.dead-letter", True)
    assert (change.done.by, change.done.reason) == ("ops@acme", "needed")
