"""The verdict on a history: the auditor's, over topics and journal, and what only we can see."""

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from answerbus.topics import DEAD_LETTERS, RUNS, STEPS, TOOL_RESULTS, TOPICS
from services.operators.records.stored import Stored
from tests.chaos import auditor
from tests.chaos.audit import typed
from tests.chaos.audit.history import History as Told
from tests.chaos.audit.history import Violation
from tests.chaos.audit.record import Record
from tests.simulation import fallbacks
from tests.simulation.agents import checks
from tests.simulation.agents.history import RunHistory
from tests.simulation.agents.setting import TOOL_CALLS
from tests.simulation.billing import wrongly_charged
from tests.simulation.budgets import announced_twice, overspent
from tests.simulation.history import History, StuckError
from tests.simulation.log import Entry
from tests.simulation.own_audit import stored
from tests.simulation.process import CURRENT, run_and_clean_up
from tests.simulation.provider import POISON, NotedCall
from tests.simulation.sides import SIDES, of_side
from tests.simulation.timeline import START_S, Timeline
from tests.simulation.worker import PREFIX, simulated_clients
from tests.unit.worker.builders import NOW
from tests.unit.worker.lane.noted import Pair, noted

AUDITED = frozenset(topic.name for topic in (*TOPICS, RUNS, STEPS, TOOL_RESULTS, TOOL_CALLS))
TYPED_EVERY = 50  # the schemas of all events cost as much time as everything else together


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was wrong with one history, and the records that it left behind, also compacted ones.

    `calls` are those of the journal of the provider, `met` the rows of their tables that its lanes
    and requests came to.
    """

    seed: int
    complaints: tuple[str, ...]
    timeline: Timeline
    records: tuple[Record, ...]
    met: frozenset[Pair]
    calls: tuple[NotedCall, ...]

    @property
    def is_fine(self) -> bool:
        """Nothing."""
        return not self.complaints

    def stored(self) -> list[Stored]:
        """The records of public and private topics, as operators read them."""
        return stored(self.records, TOPICS)


class _Ear(logging.Handler):
    """Puts what workers log into the timeline; an exception that they had to log is a bug."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(logging.WARNING)
        self.bugs: list[str] = []
        self._timeline = timeline

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error:
            text += f": {error!r}"
            process = CURRENT.get()
            self.bugs.append(f"{process.name if process else 'somebody'}: {text}")
        self._timeline.tell(lambda: f"logs: {text}")


def judge(seed: int, *, runs: bool = False, next_rebalance: bool = False) -> Verdict:
    """Run the history of a seed, of plain requests alone or with `runs` among them."""
    history = RunHistory if runs else History
    return _judged(history(seed, next_rebalance=next_rebalance))


def _judged(history: History) -> Verdict:
    logger = logging.getLogger("services")
    before = logger.propagate, logger.level
    ear = _Ear(history.timeline)
    logger.addHandler(ear)
    logger.propagate = False
    complaints: list[str] = []

    async def main() -> None:
        try:
            await history.run()
        except StuckError as stuck:
            complaints.append(str(stuck))
        records = _records(history)
        complaints.extend(_held(history))
        complaints.extend(_wrongly_given_up(history, records))
        complaints.extend(history.careful)
        complaints.extend(wrongly_charged(records, history.provider.bills))
        complaints.extend(str(violation) for violation in _audit(history, records))
        complaints.extend(overspent(history.world.budgets, records))
        complaints.extend(announced_twice(records))
        complaints.extend(fallbacks.complaints(history, records))
        if isinstance(history, RunHistory):
            complaints.extend(checks.complaints(history, records))
        history.timeline.is_over = True

    try:
        with simulated_clients(), noted() as met:
            errors = run_and_clean_up(main(), history.processes)
    finally:
        logger.removeHandler(ear)
        logger.propagate = before[0]
    complaints += [*history.boundary.complaints, *ear.bugs, *errors]
    return Verdict(
        history.seed,
        tuple(complaints),
        history.timeline,
        _records(history),
        frozenset(met),
        tuple(history.provider.noted),
    )


def summary(
    seed: int, *, runs: bool = False, next_rebalance: bool = False
) -> tuple[int, bool, frozenset[Pair]]:
    """The seed, whether every promise held, and the rows of the tables that were met."""
    verdict = judge(seed, runs=runs, next_rebalance=next_rebalance)
    return seed, verdict.is_fine, verdict.met


def _audit(history: History, records: Sequence[Record]) -> Iterator[Violation]:
    """By side, if ids are used by two workflows: the auditor goes by the ids of requests alone."""
    if isinstance(history, RunHistory):
        yield from _audit_side(history, records, None)
        return
    for side in SIDES:
        yield from _audit_side(history, records, side)


def _audit_side(
    history: History, records: Sequence[Record], side: str | None
) -> Iterator[Violation]:
    audited = [record for record in records if record.topic in AUDITED]
    stable = NOW + timedelta(seconds=history.stable_at - START_S)
    reported = Told(
        prefix=PREFIX,
        partitions=history.partitions,
        records=audited if side is None else of_side(audited, side),
        calls=history.provider.journal(side),
        committed=history.cluster.offsets,
        awaited_from={place: max(stable, at) for place, at in history.boundary.read_at.items()},
        deeds=history.tools.deeds if isinstance(history, RunHistory) else None,
    )
    for check in auditor.CHECKS:
        if check is typed.check and history.seed % TYPED_EVERY:
            continue
        for violation in check(reported):
            if violation.promise != "G5" or not _is_excused(history, reported, violation.about):
                yield violation


def _is_excused(history: History, reply: Told, about: str) -> bool:
    """An answer is lost, too, with a partition that moves while the call is in flight."""
    for (request_id, attempt), calls_made in reply.calls_of.items():
        if about == f"{request_id}.attempt.{attempt}":
            written_off = reply.attempts[request_id, attempt][0].record
            return history.boundary.was_taken(
                calls_made[0].pid,
                written_off.partition,
                calls_made[0].started,
                written_off.timestamp,
            )
    return False


def _records(history: History) -> tuple[Record, ...]:
    """What is committed, by topic, partition and offset."""
    found = (
        _record(log.topic.removeprefix(f"{PREFIX}.").removesuffix(".v1"), entry)
        for log in history.cluster.logs.values()
        for entry in log.whole
        if entry.is_committed
    )
    return tuple(sorted(found, key=lambda record: (record.topic, record.partition, record.offset)))


def _record(topic: str, entry: Entry) -> Record:
    at = entry.at.replace(microsecond=entry.at.microsecond // 1000 * 1000)
    return Record(topic, entry.partition, entry.offset, at, entry.key, entry.value, entry.headers)


def _wrongly_given_up(history: History, records: Sequence[Record]) -> Iterator[str]:
    """Only what ends its worker is given up for that, and that always is."""
    dead_letters = [json.loads(r.value or b"") for r in records if r.topic == DEAD_LETTERS.name]
    given_up = [e["request_id"] for e in dead_letters if e["cause"]["kind"] == "crashed_worker"]
    if given_up != [POISON] * history.has_poison:
        yield f"given up for the end of their workers: {given_up}"


def _held(history: History) -> Iterator[str]:
    """What a worker that has ended in order still holds."""
    for worker in history.everyone:
        if worker.process.is_dead or not worker.has_ended:
            continue
        name, context = worker.process.name, worker.context
        held = [context.slots.reserved, context.slots.calling]
        for backend in context.planner.backends.values():
            limiter = backend.limiter
            held += [limiter.slots.reserved, limiter.slots.calling, limiter.in_flight]
            held.append(len(limiter.waiting))
        if any(held):
            yield f"{name} holds slots: {held}"
        if context.counters.held:
            yield f"{name} counts {context.counters.held} retries as held"
        me = asyncio.current_task()
        left = [task for task in worker.process.unfinished() if task is not me]
        if left:
            yield f"{name} left tasks that never end: {left}"
        producers = [p for p in history.cluster.running if p.process is worker.process]
        if producers:
            yield f"{name} left {len(producers)} producers running"
