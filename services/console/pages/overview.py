"""The overview: what goes on now, and what needs someone."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names
from services.console.pages.render import page
from services.console.state.board import OUTCOMES
from services.console.views.plot import HEIGHT, WIDTH, stacked

WINDOWS = {60: "1 hour", 360: "6 hours", 1440: "24 hours"}  # minutes; multiples of STEPS
STEPS = 60


async def overview(request: web.Request) -> web.Response:
    """The last hour, or as many minutes as `minutes` says."""
    context = request.app[CONTEXT]
    state, poll_results = context.feed.state, context.poller.results
    now_ms = int(context.now() * 1000)
    known_names(request, "minutes")
    asked = request.query.get("minutes", "")
    minutes = int(asked) if asked in map(str, WINDOWS) else min(WINDOWS)
    window = state.board.window(now_ms, minutes, STEPS)
    lag, in_flight = poll_results.lag, state.lanes.in_flight
    return page(
        request,
        "overview.html",
        windows=WINDOWS,
        window=window,
        outcomes=OUTCOMES,
        outcome_plot=stacked(window.outcomes),
        spend_plot=stacked({"spend": window.micro_usd}),
        plot_size=(WIDTH, HEIGHT),
        rates=sorted(window.total.rates.items(), key=lambda entry: -entry[1].terminals),
        lanes=state.lanes.lanes,
        in_flight=in_flight,
        lag=lag,
        lag_total=None if lag is None else sum(lag.values()),
        waiting=state.board.waiting.most_common(),
        open_letters=sum(letter.status == "open" for letter in state.dead_letters),
        poll_results=poll_results,
        records=state.records,
    )
