"""From ledger, offsets, requests and workers' answers to the cells of the grid of lanes; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from services.console.state.board import OpenRetry
from services.console.state.lanes import LaneSummary, ReportedLane
from services.console.state.request_times import RequestTimes
from services.console.views.lane_grid import Halt, LaneCell

# What a request waits for in each state of a worker's answer; `{}` is its profile.
_WAITS: Mapping[str, str] = MappingProxyType(
    {
        "ready": "a free place at profile {}",
        "running": "profile {}",
        "delayed": "a retry at profile {}",
        "awaiting_budget": "budget of its workflow",
        "awaiting_tools": "tools, child requests or an approval",
        "ending": "the end of its child requests",
    }
)
_AT_PROFILE = ("ready", "running", "delayed")


@dataclass(frozen=True, slots=True)
class LaneInputs:
    """The facts of the grid; `committed` are the offsets of the workers' group.

    `silent` are the names of workers that do not answer, `unhealthy` the profiles, and what is
    wrong in a few words.
    """

    lanes: Iterable[LaneSummary]
    in_flight: Mapping[int, int]
    lag: Mapping[int, int] | None
    committed: Mapping[int, int]
    request_times: Mapping[int, RequestTimes]
    oldest_retry: Mapping[int, OpenRetry]
    reported: Mapping[int, ReportedLane] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    unhealthy: Mapping[str, str] = field(default_factory=dict)


def lane_cells(inputs: LaneInputs, now_ms: int) -> list[LaneCell]:
    """By partition: those that a worker has opened, and those that have a lag."""
    known = {lane.partition: lane for lane in inputs.lanes}
    lag = inputs.lag or {}
    partitions = sorted({*known, *lag, *inputs.oldest_retry, *inputs.reported})
    return [_cell(inputs, partition, known.get(partition), now_ms) for partition in partitions]


def _cell(inputs: LaneInputs, partition: int, lane: LaneSummary | None, now_ms: int) -> LaneCell:
    reported, since_ms = inputs.reported.get(partition), _oldest_ms(inputs, partition)
    worker = reported.worker if reported else lane.worker if lane else None
    halt, waits_for = _halt(inputs, partition, worker)
    return LaneCell(
        partition,
        worker,
        None if inputs.lag is None else inputs.lag.get(partition),
        inputs.in_flight.get(partition, 0),
        None if since_ms is None else max(1, now_ms - since_ms),
        lane.openings_without_progress if lane else 0,
        lane.opened_ms if lane else None,
        reported.state.replace("_", " ") if reported else "",
        halt,
        reported.why if reported else "",
        waits_for,
    )


def _halt(inputs: LaneInputs, partition: int, worker: str | None) -> tuple[Halt | None, str]:
    """The reason why a lane stops, and what its oldest request waits for."""
    reported = inputs.reported.get(partition)
    if reported is None and worker in inputs.silent:
        return "no-worker", "another worker"
    profile, words = _awaited(reported, inputs.oldest_retry.get(partition))
    unhealthy = inputs.unhealthy.get(profile) if profile is not None else None
    if unhealthy is not None:
        words = f"profile {profile}: {unhealthy}"
    if reported and reported.why:
        return "stuck", words
    return ("away" if unhealthy is not None else None), words


def _awaited(reported: ReportedLane | None, retry: OpenRetry | None) -> tuple[str | None, str]:
    """The profile that the oldest request waits for, if it waits for one, and what it waits for."""
    if reported is not None:
        words = _WAITS.get(reported.request, "")
        profile = reported.profile if reported.request in _AT_PROFILE else None
        return profile, words.format(reported.profile)
    if retry is not None:
        return retry.profile, f"a retry at profile {retry.profile}"
    return None, ""


def _oldest_ms(inputs: LaneInputs, partition: int) -> int | None:
    """When the oldest request was written that has not had its outcome."""
    retry = inputs.oldest_retry.get(partition)
    found = [retry.since_ms if retry else None]
    times = inputs.request_times.get(partition)
    if (inputs.lag or {}).get(partition) and times:
        found.append(times.written_ms(inputs.committed.get(partition, 0)))
    return min((at_ms for at_ms in found if at_ms is not None), default=None)
