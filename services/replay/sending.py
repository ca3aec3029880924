"""Sends replays at a given pace, until done, stopped or taken over."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from answerbus.dead_letter import Replayed
from services.operators.adapters.replaying import Prepared, Step, replaying
from services.operators.adapters.writer import CHANGES_MAX, Superseded, Writer
from services.operators.dead_letters.forecast import Forecast
from services.replay.progress import progress
from services.replay.stopping import HowEnded, slept, stopping


@dataclass(slots=True)
class Done:
    """What was done by the end: of the letters or of the time."""

    sums: Forecast = field(default_factory=Forecast)
    sent: list[Replayed] = field(default_factory=list)
    ended: HowEnded = "done"

    def take(self, step: Step) -> None:
        """A transaction was committed."""
        for letter, outcome in step.outcomes:
            self.sums.take(letter.id, outcome)
        self.sent += [prepared.replayed for _, prepared in step.sent]

    @property
    def count(self) -> int:
        """How many dead letters were looked at."""
        return self.sums.sendable + self.sums.held_back_count


async def send(
    writer: Writer, outcomes: AsyncIterator[Prepared], count: int, rate: float | None = None
) -> Done:
    """Send what can be sent of `count` letters, at most `rate` a second. Raises BusUnavailable."""
    at_once = CHANGES_MAX if rate is None else max(1, min(CHANGES_MAX, int(rate)))
    done, began = Done(), time.monotonic()
    with stopping() as stop, progress("sending", count) as advance:
        try:
            async for step in replaying(writer, outcomes, at_once=at_once):
                done.take(step)
                advance(len(step.outcomes))
                if done.count >= count:
                    continue
                if rate is not None:
                    await slept(stop, began + len(done.sent) / rate - time.monotonic())
                if stop.is_set():
                    done.ended = "stopped"
                    break
        except Superseded:
            done.ended = "superseded"
    return done
