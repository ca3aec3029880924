"""The time range of a page, and the part of it that the board covers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names
from services.console.state.board import Window
from services.console.state.minute import Minute
from services.console.views.filters import FilterFault
from services.console.views.status import unhealthy_profiles
from services.console.views.time_range import NAMES, TITLES, TimeRange, time_range_of
from services.console.views.units import KEPT_MINUTES, MINUTE_MS


@dataclass(frozen=True, slots=True)
class AskedTime:
    """`before` is the time of the same length before, where all of it is still kept."""

    time_range: TimeRange
    window: Window
    before: Minute | None

    @property
    def shown(self) -> Mapping[str, Any]:
        """The range, those to choose from, and the time of one column, for a template."""
        minutes = self.window.step_minutes
        step = "minute" if minutes == 1 else f"{minutes} minutes"
        return {"time_range": self.time_range, "range_titles": TITLES, "step": step}


def asked_time(request: web.Request) -> AskedTime:
    """The parameters of the address; raises HTTPBadRequest for anything else."""
    known_names(request, *NAMES)
    context = request.app[CONTEXT]
    now_ms = int(context.now() * 1000)
    found = time_range_of(request.query, now_ms)
    if isinstance(found, FilterFault):
        raise web.HTTPBadRequest(text=found.reason)
    board, minutes = context.feed.state.board, found.charted_minutes
    window = board.window(found.charted_end_ms - 1, minutes, found.steps)
    is_kept = now_ms - window.first_ms + minutes * MINUTE_MS <= KEPT_MINUTES * MINUTE_MS
    before = board.window(window.first_ms - 1, minutes, 1).total if is_kept else None
    return AskedTime(found, window, before)


def unhealthy_now(request: web.Request) -> Mapping[str, str]:
    """By profile, what workers say is wrong with it."""
    context = request.app[CONTEXT]
    return unhealthy_profiles(context.poller.results.profiles, int(context.now() * 1000))
