"""Who is served next."""

import pytest

from services.worker.limits.waiter_queue import Waiter, WaiterQueue
from tests.unit.worker.lane.virtual import run


def served(line: "WaiterQueue[str]", waiters: list[Waiter[str]], count: int) -> list[str]:
    """The keys in the order in which they are served."""
    order = []
    for _ in range(count):
        before = {waiter for waiter in waiters if waiter.given.done()}
        line.serve("a place")
        (new,) = {waiter for waiter in waiters if waiter.given.done()} - before
        order.append(new.key)
    return order


def test_a_crowd_of_one_key_keeps_nobody_waiting() -> None:
    async def main() -> None:
        line: WaiterQueue[str] = WaiterQueue()
        waiters = [line.join("crowd", 0) for _ in range(1_000)]
        waiters += [line.join("b", 0), line.join("c", 0), line.join("b", 0)]

        assert served(line, waiters, 6) == ["crowd", "b", "c", "crowd", "b", "crowd"]

    run(main())


def test_who_gave_up_is_passed_over() -> None:
    async def main() -> None:
        line: WaiterQueue[str] = WaiterQueue()
        waiters = [line.join("a", 1), line.join("a", 2), line.join("b", 3)]
        waiters[0].given.cancel()

        first = line.first()
        assert first is waiters[1]
        assert first.tokens == 2
        waiters[1].given.cancel()
        assert line.first() is waiters[2]
        line.serve("a place")
        assert (line.first(), await waiters[2].given) == (None, "a place")
        with pytest.raises(IndexError):
            line.serve("another")

    run(main())


def test_a_line_holds_nothing_of_those_who_left() -> None:
    async def main() -> None:
        line: WaiterQueue[str] = WaiterQueue()
        for number in range(100):
            waiter = line.join(f"w-{number}", 0)
            if number % 2:
                waiter.given.cancel()
        while line.first():
            line.serve("a place")

        assert len(line._waiting) == 0

    run(main())
