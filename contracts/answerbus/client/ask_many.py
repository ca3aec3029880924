"""Runs a job: publishes what has no outcome yet, a bounded number of requests at a time."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Generic

from answerbus.client.answer_type import AnswerT, AnswerType
from answerbus.client.connection import BusConnection
from answerbus.client.follow_up import is_follow_up, valid_answer
from answerbus.client.job import (
    CONCURRENCY_MAX,
    JobOutcomes,
    JobProgress,
    JobRequests,
    KeptOutcome,
    Row,
    RowOutcome,
)
from answerbus.client.workflow_outcomes import Wanted, WorkflowOutcomes
from answerbus.event import AnyOutcome
from answerbus.request import Request

JobProgressCallback = Callable[[JobProgress[Any]], None]


async def ask_many(
    connection: BusConnection,
    job_id: str,
    rows: Sequence[Row],
    requests: JobRequests,
    answers: AnswerType[AnswerT],
    concurrency: int,
    on_progress: JobProgressCallback | None,
    *,
    is_new: bool,
) -> JobOutcomes[AnswerT]:
    """See `Client.ask_many`."""
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise ValueError(f"concurrency is 1 to {CONCURRENCY_MAX:,}")
    wanted = Wanted(job_id, requests)
    async with connection.outcomes_of(wanted, is_new=is_new) as outcomes:
        job = _Job(connection, wanted, outcomes, answers, on_progress)
        open_rows = zip(count(), rows, requests, strict=False)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(concurrency, len(requests))):
                    tasks.create_task(job.work(open_rows, requests))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
    found = sorted(job.found, key=lambda kept: kept.number)
    return JobOutcomes(job_id, job.progress, tuple(found))


def show_bar(progress: JobProgress[Any]) -> None:
    """An `on_progress` that draws a bar on stderr, in a terminal and in a notebook."""
    end = "\n" if progress.done == progress.rows else ""
    sys.stderr.write(f"\r{progress}{end}")
    sys.stderr.flush()


class _Job(Generic[AnswerT]):
    def __init__(
        self,
        connection: BusConnection,
        wanted: Wanted,
        outcomes: WorkflowOutcomes,
        answers: AnswerType[AnswerT],
        on_progress: JobProgressCallback | None,
    ) -> None:
        self.progress: JobProgress[AnswerT] = JobProgress(len(wanted.requests))
        self.found: list[KeptOutcome[AnswerT]] = []
        self._connection, self._wanted = connection, wanted
        self._outcomes, self._answers = outcomes, answers
        self._on_progress = on_progress

    async def work(self, rows: Iterator[tuple[int, Row, str]], requests: JobRequests) -> None:
        """One row after the other; others work on the same iterator."""
        for number, row, request_id in rows:
            outcome = await valid_answer(requests[request_id], self._answers, self._ask)
            newest = RowOutcome(number, row, outcome)
            self.found.append(KeptOutcome.of(newest))
            self.progress = self.progress.after(newest)
            if self._on_progress is not None:
                self._on_progress(self.progress)
            await asyncio.sleep(0)  # what is known already must not keep the loop busy

    async def _ask(self, request: Request) -> AnyOutcome:
        if (known := self._outcomes.taken(request.request_id)) is not None:
            return known
        if is_follow_up(request.request_id):
            self._wanted.follow_ups[request.request_id] = request
        await self._connection.publish(request)
        outcome = await self._outcomes.wait(request.request_id)
        self._wanted.follow_ups.pop(request.request_id, None)
        return outcome


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of one row stands for those of all: Kafka is away for each of them."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
