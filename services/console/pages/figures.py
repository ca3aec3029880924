"""The pages of profiles, lanes and money."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.figures.outcome_charts import spend_figure
from services.console.figures.profile_strips import profile_strips
from services.console.figures.spend_rows import by_contract, by_label, by_model, by_workflow
from services.console.form import known_names
from services.console.pages.render import page
from services.console.pages.window import asked_time, lanes_now, unhealthy_now
from services.console.views.lane_grid import LEVEL_WORDS
from services.console.views.time_range import TITLES

STRIPS_OPEN = 3  # profiles whose pictures are seen as the page opens; the others have their numbers
WORKFLOWS_SHOWN = 10
LANES_LISTED = 24  # more of them are a grid, and a list that is folded away


async def profiles(request: web.Request) -> web.Response:
    """A strip for each profile that was called."""
    time_range = asked_time(request)
    health = request.app[CONTEXT].poller.results.health
    strips = profile_strips(time_range.window, health, "/profiles", unhealthy_now(request))
    return page(
        request,
        "profiles.html",
        time_range=time_range.time_range,
        range_titles=TITLES,
        step=time_range.step,
        strips=strips,
        strips_open=[strip.row.name for strip in strips if strip.row.made][:STRIPS_OPEN],
    )


async def lanes(request: web.Request) -> web.Response:
    """The grid, and each lane."""
    known_names(request)
    cells = lanes_now(request)
    listed = len(cells) <= LANES_LISTED
    return page(request, "lanes.html", lanes=cells, listed=listed, age_words=LEVEL_WORDS)


async def money(request: web.Request) -> web.Response:
    """What was spent, on what."""
    time_range, board = asked_time(request), request.app[CONTEXT].feed.state.board
    total = time_range.window.total
    return page(
        request,
        "money.html",
        time_range=time_range.time_range,
        range_titles=TITLES,
        step=time_range.step,
        spend=spend_figure(time_range.window, "/money"),
        total=total.spent,
        contracts=by_contract(total, board.schema_labels),
        models=by_model(total),
        labels=by_label(board, time_range.window),
        workflows=by_workflow(board, time_range.window, WORKFLOWS_SHOWN),
    )
