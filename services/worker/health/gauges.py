"""The gauges of this moment, and the counters that lanes keep themselves."""

from collections.abc import Iterator

from services.telemetry import metrics
from services.telemetry.counts import Sample
from services.worker.health.reasons import not_read
from services.worker.health.verdict import Verdict
from services.worker.health.watched import Watched
from services.worker.lane.lane import Lane
from services.worker.lane.machine import State


def gauges(verdict: Verdict, watched: Watched) -> Iterator[Sample]:
    """All but what was counted."""
    tally = watched.context.tally
    yield metrics.DUPLICATES, (), tally.duplicates
    yield metrics.FORWARDED, (), tally.forwarded
    yield metrics.UNREADABLE, (), tally.unreadable
    yield metrics.UNREAD, (), tally.unread
    yield metrics.HELD, (), tally.held
    yield metrics.KAFKA_SILENCE, (), watched.probe.silent_s
    yield metrics.NOT_READ, (), not_read(watched) is not None
    yield metrics.STALLS, (), watched.pulse.stalls
    yield metrics.LATENESS, (), watched.pulse.worst_s()
    yield metrics.READY, (), verdict.ready
    ahead_s = watched.clock_ahead_s()
    if ahead_s is not None:
        yield metrics.CLOCK_AHEAD, (), ahead_s
    for name, backend in watched.context.planner.backends.items():
        yield metrics.IN_FLIGHT, (name,), backend.gate.calling
        yield metrics.SICK, (name,), backend.gate.sick is not None
        yield metrics.BREAKER_OPEN, (name,), backend.gate.breaker.is_off
        yield metrics.SILENCE, (name,), backend.gate.silent_s
    now = watched.context.clock.now()
    for partition, holder in verdict.held.items():
        labels = str(partition), holder.workflow_id
        yield metrics.HELD_REQUESTS, labels, holder.requests
        yield metrics.HELD_AGE, labels, max((now - holder.since).total_seconds(), 0.0)
    for partition, life in watched.membership.lives.items():
        yield metrics.LANE_STUCK, (str(partition),), partition in verdict.stuck
        yield metrics.FAILED_OPENINGS, (str(partition),), life.lane.failed_openings
        for state in State:
            is_in = life.lane.state is state
            yield metrics.LANE_STATE, (str(partition), state.name.lower()), is_in
        if life.lane.state is State.OPEN:
            yield from _of_open(life.lane, watched)


def _of_open(lane: Lane, watched: Watched) -> Iterator[Sample]:
    labels, books = (str(lane.partition),), lane.books
    yield metrics.LANE_QUEUE, labels, len(books.queue)
    end = watched.probe.ends.get(lane.partition)
    if end is not None:
        yield metrics.LANE_LAG, labels, max(end - books.watermark.committable, 0)
    yield metrics.LANE_UNREAD, labels, watched.reading.unread_s(lane.partition)
    oldest = next(iter(books.queue.tickets.values()), None)  # they are kept as they came
    now = watched.context.clock.now()
    age_s = (now - oldest.origin.timestamp).total_seconds() if oldest else 0.0
    yield metrics.OLDEST, labels, max(age_s, 0.0)
