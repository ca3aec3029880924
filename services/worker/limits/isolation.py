"""Who may call beside whom: suspects are tried one lane at a time, and at last by themselves."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Company:
    """`trial` is the lane whose suspect calls; `alone` bears nobody else; lower ranks go first."""

    trial: int | None = None
    alone: bool = False
    rank: int = 0


ANYBODY = Company()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    company: Company
    given: "asyncio.Future[None]"


class Isolation:
    """The calls of one worker. Most go on side by side; only suspects must ever wait here."""

    def __init__(self) -> None:
        self._others = 0
        self._trials = 0
        self._tried: int | None = None
        self._is_alone = False
        self._waiting: list[_Waiter] = []

    async def enter(self, company: Company = ANYBODY) -> None:
        """Wait until it may call, as long as it takes; `leave` must follow."""
        if not self._waiting and self._may(company):
            self._count(company, 1)
            return
        waiter = _Waiter(company, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._let_in()
        try:
            await waiter.given
        except asyncio.CancelledError:
            if waiter.given.done() and not waiter.given.cancelled():
                self.leave(company)
            else:
                self._waiting.remove(waiter)
                self._let_in()
            raise

    def leave(self, company: Company = ANYBODY) -> None:
        """The call is over."""
        self._count(company, -1)
        self._let_in()

    def _let_in(self) -> None:
        for waiter in sorted(self._waiting, key=lambda found: found.company.rank):
            if not waiter.given.done() and self._may(waiter.company):
                self._waiting.remove(waiter)
                self._count(waiter.company, 1)
                waiter.given.set_result(None)

    def _may(self, company: Company) -> bool:
        if self._is_alone:
            return False
        if company.alone:
            return self._others == 0 and self._trials == 0 and self._is_next(company)
        if self._next_is_alone():
            return False
        return company.trial is None or self._trials == 0 or self._tried == company.trial

    def _next_is_alone(self) -> bool:
        """Whether one that bears nobody else has its turn once those that call have ended."""
        ranked = self._suspects()
        return bool(ranked) and ranked[0].alone and self._trials == 0

    def _is_next(self, company: Company) -> bool:
        ranked = self._suspects()
        return not ranked or ranked[0].rank >= company.rank

    def _suspects(self) -> list[Company]:
        waiting = (w.company for w in self._waiting if not w.given.done())
        suspect = (company for company in waiting if company.alone or company.trial is not None)
        return sorted(suspect, key=lambda company: company.rank)

    def _count(self, company: Company, by: int) -> None:
        if company.alone:
            self._is_alone = by > 0
        elif company.trial is not None:
            self._trials += by
            self._tried = company.trial
        else:
            self._others += by


class Stay:
    """One call's place among the others; `leave` gives it back, as far as it is held."""

    def __init__(self, isolation: Isolation, company: Company) -> None:
        self._isolation, self._company = isolation, company
        self._has_begun = False

    @property
    def is_alone(self) -> bool:
        """Whether it bears nobody else."""
        return self._company.alone

    async def begin(self) -> None:
        """Wait until it may call."""
        await self._isolation.enter(self._company)
        self._has_begun = True

    def leave(self) -> None:
        """The call is over."""
        if self._has_begun:
            self._has_begun = False
            self._isolation.leave(self._company)
