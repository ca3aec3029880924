"""The current lanes, for each page and for `top`."""

from services.console.figures.lane_cells import LaneInputs, lane_cells
from services.console.tasks.feed import Feed
from services.console.tasks.polling import Poller
from services.console.views.lane_grid import LaneCell
from services.console.views.status import short_problem


def lanes_now(feed: Feed, poller: Poller, now_ms: int) -> list[LaneCell]:
    """As ledger, offsets, requests and workers report them."""
    state, polled = feed.state, poller.results
    inferred = dict.fromkeys(state.board.unhealthy(now_ms), "no answers")
    reported = {one.name: short_problem(one.problem) for one in polled.profiles if one.problem}
    inputs = LaneInputs(
        state.lanes.lanes,
        state.lanes.in_flight,
        polled.lag,
        polled.committed,
        state.request_times,
        state.board.waits.oldest,
        polled.lanes,
        polled.silent_names,
        {**inferred, **reported},
    )
    return lane_cells(inputs, now_ms)
