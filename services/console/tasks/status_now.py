"""The current status of the bus, for each page and for `top`."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import islice

from services.console.tasks.feed import Feed
from services.console.tasks.lanes_now import lanes_now
from services.console.tasks.polling import Poller
from services.console.views.status import LATELY_MINUTES, BusStatus, StatusFacts, bus_status
from services.console.views.units import MINUTE_MS
from services.operators.dead_letters.why import why_text, without_path

RECENT_DEAD_LETTERS_MAX = 1_000  # are looked at for why most of them died


def status_now(feed: Feed, poller: Poller, now_ms: int, *, operator: bool) -> BusStatus:
    """Paths of problems, which may quote answers, and the words of workers are for operators."""
    state, results, progress = feed.state, poller.results, feed.progress
    recent = state.board.window(now_ms, LATELY_MINUTES, 1).total.outcomes
    unhealthy = {profile.name for profile in results.profiles if profile.problem}
    lag = None if results.lag is None else sum(results.lag.values())
    asked = state.open_runs.asked_ms(now_ms)
    return bus_status(
        StatusFacts(
            now_ms=now_ms,
            kafka_error=progress.error or results.error,
            percent=None if progress.caught_up else progress.percent,
            profiles=results.profiles,
            unanswered=[name for name in state.board.unhealthy(now_ms) if name not in unhealthy],
            stuck=results.stuck if operator else [replace(one, why="") for one in results.stuck],
            worker_reasons=results.worker_reasons,
            toolsets=results.toolsets,
            workers=len(results.workers),
            silent_workers=results.silent_workers,
            abandoned=[
                lane.partition
                for lane in lanes_now(feed, poller, now_ms)
                if lane.halt == "no-worker"
            ],
            approvals=len(asked),
            approval_age_s=(now_ms - min(asked, default=now_ms)) / 1000,
            ended=recent.total(),
            dead=recent["dead_letter"],
            dead_mostly=_mostly(feed, now_ms, operator=operator),
            waiting=lag,
            standing_s=_standing_s(feed, poller, now_ms),
        )
    )


def _mostly(feed: Feed, now_ms: int, *, operator: bool) -> str | None:
    """Why most of those died that died lately."""
    since_ms = now_ms - LATELY_MINUTES * MINUTE_MS
    newest = islice(feed.state.dead_letters.newest(), RECENT_DEAD_LETTERS_MAX)
    whys = Counter(dead_letter.why for dead_letter in newest if dead_letter.at_ms >= since_ms)
    if not whys:
        return None
    why = whys.most_common(1)[0][0]
    return why_text(why if operator else without_path(why))


def _standing_s(feed: Feed, poller: Poller, now_ms: int) -> float:
    """How long records have waited without a break while nothing has ended.

    Those that waited before this program looked have done so since they were written.
    """
    lagging_since = poller.results.lagging_since
    if lagging_since is None:
        return 0.0
    lasts_s = asyncio.get_running_loop().time() - lagging_since
    lasts_s = max(lasts_s, (now_ms - _waiting_since_ms(feed, poller, now_ms)) / 1000)
    ended_ms = feed.state.ended_ms
    return lasts_s if ended_ms is None else min(lasts_s, max(0.0, (now_ms - ended_ms) / 1000))


def _waiting_since_ms(feed: Feed, poller: Poller, now_ms: int) -> int:
    """When the oldest record was written that waits and was read here."""
    found = [now_ms]
    for partition, lag in (poller.results.lag or {}).items():
        times, committed = feed.state.request_times.get(partition), poller.results.committed
        at_ms = times.written_ms(committed.get(partition, 0)) if lag and times else None
        if times and at_ms is not None and times.newest >= committed.get(partition, 0):
            found.append(at_ms)
    return min(found)
