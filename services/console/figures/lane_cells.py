"""From ledger, offsets and requests to the cells of the grid of lanes; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.console.state.lanes import LaneSummary
from services.console.state.request_times import RequestTimes
from services.console.views.lane_grid import LaneCell


@dataclass(frozen=True, slots=True)
class LaneInputs:
    """What the grid is made of; `committed` are the offsets of the workers' group."""

    lanes: Iterable[LaneSummary]
    in_flight: Mapping[int, int]
    lag: Mapping[int, int] | None
    committed: Mapping[int, int]
    request_times: Mapping[int, RequestTimes]
    oldest_retry_ms: Mapping[int, int]


def lane_cells(inputs: LaneInputs, now_ms: int) -> list[LaneCell]:
    """By partition: those that a worker has opened, and those that have a lag."""
    known = {lane.partition: lane for lane in inputs.lanes}
    lag = inputs.lag or {}
    found = []
    for partition in sorted({*known, *lag, *inputs.oldest_retry_ms}):
        lane, since_ms = known.get(partition), _oldest_ms(inputs, partition)
        found.append(
            LaneCell(
                partition,
                lane.worker if lane else None,
                lag.get(partition) if inputs.lag is not None else None,
                inputs.in_flight.get(partition, 0),
                None if since_ms is None else max(1, now_ms - since_ms),
                lane.openings_without_progress if lane else 0,
                lane.opened_ms if lane else None,
            )
        )
    return found


def _oldest_ms(inputs: LaneInputs, partition: int) -> int | None:
    """When the oldest request was written that has not had its outcome."""
    found = [inputs.oldest_retry_ms.get(partition)]
    times = inputs.request_times.get(partition)
    if (inputs.lag or {}).get(partition) and times:
        found.append(times.written_ms(inputs.committed.get(partition, 0)))
    return min((at_ms for at_ms in found if at_ms is not None), default=None)
