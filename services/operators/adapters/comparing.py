"""A comparison from its sample to its records: reads, asks, and writes to a topic of its own."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.topics import ATTEMPTS, OUTCOMES, REQUESTS, RESULTS, STEPS
from services.operators.adapters.asking_again import Asker, CannotGoOn, IsOver
from services.operators.adapters.comparison_writer import writing_comparisons
from services.operators.adapters.judging import Judge
from services.operators.adapters.picker import picking
from services.operators.adapters.reader import reading
from services.operators.comparisons.questions import NotAsked, RecordedQuestion, questions_of
from services.operators.comparisons.report import Comparison
from services.operators.comparisons.sample import OutcomeSample
from services.operators.records.summary import summarize


@dataclass(slots=True)
class ComparisonProgress:
    """`left_out` counts requests by why they are not asked, `ended` is why no more were."""

    folded: Comparison = field(default_factory=Comparison)
    left_out: Counter[str] = field(default_factory=Counter)
    ended: str | None = None
    requests: int = 0


async def drawn(bus: Bus, sample: OutcomeSample, since_ms: int) -> bool:
    """Draw from the outcomes since then, and find what the topics hold of their requests.

    Gives whether retention may have deleted outcomes since then. Raises BusUnavailable.
    """
    async with reading(bus, OUTCOMES, since=_moment(since_ms)) as reader:
        is_cut = await reader.is_cut(RESULTS)
        async for stored in reader.records():
            sample.take_outcome(summarize(stored))
    if sample.begins_ms is not None:
        past = (REQUESTS, ATTEMPTS)
        since = _moment(sample.begins_ms)
        async with reading(bus, past, since=since, optional=(STEPS,)) as reader:
            async for stored in reader.records():
                sample.take_past(summarize(stored))
    return is_cut


async def compare(
    bus: Bus,
    sample: OutcomeSample,
    asker: Asker,
    name: str,
    progress: ComparisonProgress,
    *,
    judge: Judge | None = None,
    at_once: int,
    stop: asyncio.Event,
    on_asked: Callable[[Compared], None] = lambda _: None,
) -> None:
    """Ask what was drawn, so many at once, until all is asked, the budget is over, or it stops.

    Each answer is written when it is there: to the topic of comparisons, and nowhere else. Raises
    BusUnavailable.
    """
    turn = asyncio.Lock()
    questions = _questions(bus, sample, progress)

    def is_over() -> bool:
        return stop.is_set() or progress.ended is not None

    async def ask_on() -> None:
        while not is_over():
            async with turn:  # the topics are read by one at a time
                question = await anext(questions, None)
            if question is None:
                return
            compared, why = await _asked(asker, judge, question, name, is_over)
            progress.ended = progress.ended or why
            if compared is None:
                return
            await write(compared)
            progress.folded.take(compared)
            on_asked(compared)

    async with writing_comparisons(bus) as write:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(ask_on())
        except* Exception as errors:
            raise errors.exceptions[0] from None
        finally:
            await questions.aclose()


async def _asked(
    asker: Asker, judge: Judge | None, question: RecordedQuestion, name: str, is_over: IsOver
) -> tuple[Compared | None, str | None]:
    """The record of a question, if it was asked, and why no more can be.

    What was asked and paid for is recorded, also where no judge can be asked any more.
    """
    found = await asker.ask(question, name, is_over)
    if not isinstance(found, Compared):
        return None, found.why if found else None
    judged = found if judge is None else await judge.judge(question, found, is_over)
    if isinstance(judged, CannotGoOn):
        return found, judged.why
    return judged or found, None


async def _questions(
    bus: Bus, sample: OutcomeSample, progress: ComparisonProgress
) -> AsyncGenerator[RecordedQuestion]:
    """Records are read when their turn has come: all of them would be too much to hold."""
    async with picking(bus) as picker:
        for sampled in sample:
            places = [sampled.request, sampled.outcome, *sampled.steps]
            records = await picker.pick_all([place for place in places if place])
            found = questions_of(sampled, records)
            if isinstance(found, NotAsked):
                progress.left_out[found.why] += 1
                continue
            progress.requests += 1
            for question in found:
                yield question


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(max(0, at_ms) / 1000, UTC)
