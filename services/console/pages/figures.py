"""The pages of profiles and lanes."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.figures.profile_strips import profile_strips
from services.console.form import known_names
from services.console.pages.render import page
from services.console.pages.window import asked_time, unhealthy_now
from services.console.tasks.lanes_now import lanes_now
from services.console.views.lane_grid import LEVEL_WORDS, halts, stopped_first

STRIPS_OPEN = 3  # profiles whose pictures are seen as the page opens; the others have their numbers
LANES_LISTED = 24  # more of them are a grid, and a list that is folded away


async def profiles(request: web.Request) -> web.Response:
    """A strip for each profile that was called."""
    asked = asked_time(request)
    results = request.app[CONTEXT].poller.results
    strips = profile_strips(asked.window, results.health, unhealthy_now(request), results.servers)
    return page(
        request,
        "profiles.html",
        **asked.shown,
        strips=strips,
        strips_open=[strip.row.name for strip in strips if strip.row.made][:STRIPS_OPEN],
    )


async def lanes(request: web.Request) -> web.Response:
    """The grid, and each lane."""
    known_names(request)
    context = request.app[CONTEXT]
    cells = lanes_now(context.feed, context.poller, int(context.now() * 1000))
    listed = len(cells) <= LANES_LISTED
    return page(
        request,
        "lanes.html",
        lanes=cells,
        rows=stopped_first(cells),
        listed=listed,
        age_words=LEVEL_WORDS,
        halts=halts(cells),
    )
