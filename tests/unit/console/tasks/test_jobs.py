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
from services.console.tasks.jobs import Jobs
from services.console.views.replay_form import FIELD_CHARS_MAX, ReplayForm
from services.operators.adapters.writer import Change
from services.operators.dead_letters.forecast import KnownNames
from services.operators.dead_letters.prepare_replay import ReplayOrder
from tests.unit.console.context import NOWHERE
from tests.unit.operators.stored_examples import NOON_MS, stored


class Writer:
    def __init__(self) -> None:
        self.written: list[Change] = []

    async def commit(self, changes: Sequence[Change]) -> None:
        self.written += changes


async def test_a_reason_in_letters_of_several_bytes_is_cut_to_what_the_topic_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, feed = Writer(), Feed(NOWHERE)
    feed.state.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))

    @asynccontextmanager
    async def writing(_: Bus) -> AsyncIterator[Writer]:
        yield writer

    async def at_once() -> None:
        pass

    monkeypatch.setattr(jobs_module, "writing", writing)
    monkeypatch.setattr(feed, "catch_up_with_dead_letters", at_once)
    jobs = Jobs(NOWHERE, feed, KnownNames(None, Registry()), lambda: NOON_MS / 1000)
    reason = "漢" * FIELD_CHARS_MAX  # what the form lets through

    job = jobs.start(
        "dismiss", [*feed.state.dead_letters], ReplayOrder("夜@acme", reason), ReplayForm()
    )
    async with asyncio.timeout(10):
        while not job.finished:
            await asyncio.sleep(0)

    assert (job.error, job.done) == (None, 1)
    (change,) = writer.written
    assert isinstance(change.done, Dismissed)
    assert change.done.by == "夜@acme"
    assert 0 < len(change.done.reason.encode()) <= REASON_BYTES_MAX
