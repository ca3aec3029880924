"""Dry runs, replays and dismissals asked for on the pages, each done in the background."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, assert_never

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from services.console.tasks.feed import Feed
from services.console.views.replay_form import ReplayForm
from services.operators.adapters.dismissing import dismissing
from services.operators.adapters.replaying import Prepared, prepared_replays, replaying
from services.operators.adapters.writer import Superseded, writing
from services.operators.dead_letters.forecast import Forecast, KnownNames
from services.operators.dead_letters.prepare_replay import ReplayOrder
from services.operators.dead_letters.row import DeadLetterRow, Status
from services.operators.records.dead_letter_key import DeadLetterKey

Action = Literal["dry-run", "replay", "dismiss", "reopen"]
ACTIONS: tuple[Action, ...] = ("dry-run", "replay", "dismiss", "reopen")
DEAD_LETTERS_MAX = 10_000  # of one job; beyond that the command line is the better tool
KEPT = 100  # jobs whose pages can still be looked at

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """One bulk action; `forecast` counts what was, or would be, sent, and what is held back."""

    number: int
    action: Action
    keys: Sequence[DeadLetterKey]
    order: ReplayOrder
    replay_form: ReplayForm
    forecast: Forecast
    done: int = 0
    error: str | None = None
    finished: bool = False


class Jobs:
    """All jobs since the console was started; one at a time is at work."""

    def __init__(self, bus: Bus, feed: Feed, known: KnownNames, now: Callable[[], float]) -> None:
        self._bus, self._feed, self._known, self._now = bus, feed, known, now
        self._jobs: dict[int, Job] = {}
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, number: int) -> Job | None:
        return self._jobs.get(number)

    def start(
        self,
        action: Action,
        dead_letters: Sequence[DeadLetterRow],
        order: ReplayOrder,
        replay_form: ReplayForm,
    ) -> Job:
        """Begin; the job reports its progress."""
        number = max(self._jobs, default=0) + 1
        keys, forecast = [dead_letter.key for dead_letter in dead_letters], Forecast(self._known)
        job = Job(number, action, keys, order, replay_form, forecast)
        self._jobs[number] = job
        self._jobs.pop(number - KEPT, None)
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        _log.info("%s of %d dead letters by %s", action, len(dead_letters), order.by)
        return job

    async def stop(self) -> None:
        """Stop; what was written stays written, and no transaction is left half done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: Job) -> None:
        async with self._turn:
            try:
                await self._work(job)
            except (BusUnavailable, Superseded, TimeoutError) as error:
                job.error = str(error) or "Kafka took too long: try again."
            except Exception as error:
                job.error = f"It failed ({type(error).__name__}); the log says where."
                _log.exception("%s failed", job.action)
            finally:
                job.finished = True

    async def _work(self, job: Job) -> None:
        match job.action:
            case "dry-run":
                await self._dry_run(job)
            case "replay":
                await self._replay(job)
            case "dismiss" | "reopen":
                await self._dismiss(job, undone=job.action == "reopen")
            case other:
                assert_never(other)

    async def _dry_run(self, job: Job) -> None:
        async for dead_letter, outcome in self._prepared(job, self.dead_letters(job)):
            job.forecast.take(dead_letter.key, outcome)
            job.done += 1
            await asyncio.sleep(0)  # let the pages in

    async def _replay(self, job: Job) -> None:
        async with writing(self._bus) as writer:
            await self._feed.catch_up_with_dead_letters()
            async for step in replaying(
                writer, self._prepared(job, self._with_status(job, "open"))
            ):
                for dead_letter, outcome in step.outcomes:
                    job.forecast.take(dead_letter.key, outcome)
                    job.done += 1

    def _prepared(
        self, job: Job, dead_letters: Collection[DeadLetterRow]
    ) -> AsyncIterator[Prepared]:
        return prepared_replays(self._bus, dead_letters, job.order, self._known, self._time)

    async def _dismiss(self, job: Job, *, undone: bool) -> None:
        async with writing(self._bus) as writer:
            await self._feed.catch_up_with_dead_letters()
            by, reason = job.order.by, job.order.reason
            meant = self._with_status(job, "dismissed" if undone else "open")
            async for step in dismissing(writer, meant, by, reason, self._time, undone=undone):
                job.done += len(step)

    def _with_status(self, job: Job, status: Status) -> list[DeadLetterRow]:
        return [found for found in self.dead_letters(job) if found.status == status]

    def dead_letters(self, job: Job) -> list[DeadLetterRow]:
        """The dead letters of the job, as far as they are still kept."""
        found = map(self._feed.state.dead_letters.get, job.keys)
        return [dead_letter for dead_letter in found if dead_letter is not None]

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)
