"""The overview: current activity, and problems that need a person."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.figures.answer_flow import answer_flow
from services.console.figures.contract_rows import contract_rows
from services.console.figures.outcome_charts import deaths_figure, outcomes_figure
from services.console.figures.profile_strips import profile_rows
from services.console.figures.spend_rows import by_model
from services.console.figures.tiles import TileInputs, tiles
from services.console.pages.render import page
from services.console.pages.window import asked_time, unhealthy_now
from services.console.tasks.lanes_now import lanes_now
from services.console.views.filters import DeadLetterFilters
from services.console.views.lane_grid import LEVEL_WORDS, halts, longest_waiting
from services.console.views.time_range import span_pairs

LANES_SHOWN = 24
ROWS_SHOWN = 7  # of each table; the others are folded away, or on a page of their own


async def overview(request: web.Request) -> web.Response:
    """The last hour, or the time that the address says."""
    asked, context = asked_time(request), request.app[CONTEXT]
    state, poll_results = context.feed.state, context.poller.results
    window, lag, now_ms = asked.window, poll_results.lag, int(context.now() * 1000)
    lanes = lanes_now(context.feed, context.poller, now_ms)
    span = span_pairs(window.first_ms, window.end_ms)
    inputs = TileInputs(
        window,
        asked.before,
        lanes,
        None if lag is None else sum(lag.values()),
        state.lanes.in_flight.total(),
        len(state.board.waits),
        len(state.dead_letter_cache.of(DeadLetterFilters())),
        [now_ms - at_ms for at_ms in state.open_runs.asked_ms(now_ms)],
        span,
    )
    return page(
        request,
        "overview.html",
        **asked.shown,
        tiles=tiles(inputs),
        outcomes=outcomes_figure(window),
        deaths=deaths_figure(window, span),
        contracts=contract_rows(window.total, state.board.schema_labels, span),
        flow=answer_flow(window.total, span),
        lanes=longest_waiting(lanes, LANES_SHOWN),
        lanes_left_out=max(0, len(lanes) - LANES_SHOWN),
        age_words=LEVEL_WORDS,
        halts=halts(lanes),
        profiles=profile_rows(window, poll_results.health, unhealthy_now(request)),
        models=by_model(window.total),
        rows_shown=ROWS_SHOWN,
        waiting=state.board.waiting.most_common(),
        poll_results=poll_results,
        records=state.records,
    )
