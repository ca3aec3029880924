"""One profile asked live what another has answered: a few at once, on the money of the day."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Literal, Protocol

from answerbus.compared import Compared
from services.operators.adapters.asking_again import OVER_BUDGET, Asker, CannotGoOn
from services.operators.adapters.comparison_writer import WriteCompared
from services.operators.comparisons.live_draw import Drawn
from services.operators.comparisons.money_budget import MoneyBudget
from services.operators.comparisons.questions import NotAsked, questions_of
from services.operators.comparisons.shadow_day import PerDay, shadow_name
from services.operators.records.stored import RecordPosition, Stored

AT_ONCE = 4  # calls of one shadow
WAITING_MAX = 100  # drawn requests of one shadow, by their positions: no content is held

DropReason = Literal["busy", "over_budget", "away", "gone", "forgotten"]
Pick = Callable[[Iterable[RecordPosition]], Awaitable[Sequence[Stored]]]


class ShadowObserver(Protocol):
    """Hears what became of drawn requests, by the profile that they were asked of."""

    def asked(self, original: str, compared: Compared) -> None:
        """It was asked again, and that is written."""
        ...

    def dropped(self, original: str, why: DropReason) -> None:
        """It is not asked again."""
        ...


class Shadow:
    """Drops requests while too many wait: nothing ever waits for a shadow."""

    def __init__(
        self, original: str, asker: Asker, limit: PerDay, observer: ShadowObserver, calls: int = 0
    ) -> None:
        """`asker` asks the shadow; its budget, and `calls`, are of what was asked today already."""
        self.original = original
        self._asker, self._limit, self._observer = asker, limit, observer
        self._day, self._calls = _day(asker.clock.now()), calls
        self._waiting = asyncio.Queue[Drawn | None]()
        self._is_over = False

    def put(self, drawn: Drawn) -> None:
        """To be asked when its turn comes."""
        if self._waiting.qsize() < WAITING_MAX:
            self._waiting.put_nowait(drawn)
        else:
            self._observer.dropped(self.original, "busy")

    async def ask_on(self, pick: Pick, write: WriteCompared) -> None:
        """Ask one after the other until `end`; AT_ONCE of these run. Raises BusUnavailable."""
        while (drawn := await self._waiting.get()) is not None:
            match await self._asked(drawn, pick):
                case Compared() as compared:
                    await write(compared)
                    self._observer.asked(self.original, compared)
                case None:
                    pass  # it is over
                case why:
                    self._observer.dropped(self.original, why)

    def end(self) -> None:
        """No new call is made; those under way go on."""
        self._is_over = True
        while not self._waiting.empty():
            self._waiting.get_nowait()
        for _ in range(AT_ONCE):
            self._waiting.put_nowait(None)

    async def _asked(self, drawn: Drawn, pick: Pick) -> Compared | DropReason | None:
        name, asker = self._of_today()
        if self._calls >= self._limit.calls:
            return "over_budget"
        self._calls += 1
        places = (drawn.sampled.request, drawn.sampled.outcome)
        found = questions_of(drawn.sampled, await pick(place for place in places if place))
        if isinstance(found, NotAsked):
            return "gone"
        again = await asker.ask(found[0], name, lambda: self._is_over)
        if isinstance(again, CannotGoOn):
            return "over_budget" if again is OVER_BUDGET else "away"
        return again

    def _of_today(self) -> tuple[str, Asker]:
        """A clock that is put back begins no second day of the same date, with money of its own."""
        if (today := _day(self._asker.clock.now())) > self._day:
            self._day, self._calls = today, 0
            money = MoneyBudget(self._limit.micro_usd)
            self._asker = replace(self._asker, money=money, settled=asyncio.Event())
        return shadow_name(self.original, self._asker.profile, self._day), self._asker


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()
