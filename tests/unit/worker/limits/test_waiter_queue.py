"""Who is served next."""

from services.worker.limits.slots import PASSED_OVER_MAX, Waiter, WaiterQueue
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.limits.holding import key_of


def serve(line: "WaiterQueue[str]", lane: int | None = None) -> None:
    """Give a place to the first, when this lane gave it back."""
    first = line.first(lane)
    assert first is not None
    line.serve(first, "a place")


def served(line: "WaiterQueue[str]", waiters: list[Waiter[str]], count: int) -> list[str]:
    """The keys in the order in which they are served."""
    order = []
    for _ in range(count):
        before = {waiter for waiter in waiters if waiter.given.done()}
        serve(line)
        (new,) = {waiter for waiter in waiters if waiter.given.done()} - before
        order.append(new.key.workflow)
    return order


@on_virtual_time
async def test_many_waiters_of_one_key_delay_no_other_key() -> None:
    line: WaiterQueue[str] = WaiterQueue()
    waiters = [line.join(key_of("crowd"), 0) for _ in range(1_000)]
    waiters += [line.join(key_of("b"), 0), line.join(key_of("c"), 0), line.join(key_of("b"), 0)]

    assert served(line, waiters, 6) == ["crowd", "b", "c", "crowd", "b", "crowd"]


@on_virtual_time
async def test_who_gave_up_is_passed_over() -> None:
    line: WaiterQueue[str] = WaiterQueue()
    waiters = [line.join(key_of("a"), 1), line.join(key_of("a"), 2), line.join(key_of("b"), 3)]
    waiters[0].given.cancel()

    first = line.first()
    assert first is waiters[1]
    assert first.tokens == 2
    waiters[1].given.cancel()
    assert line.first() is waiters[2]
    line.serve(waiters[2], "a place")
    assert (line.first(), await waiters[2].given) == (None, "a place")


@on_virtual_time
async def test_a_line_holds_nothing_of_those_who_left() -> None:
    line: WaiterQueue[str] = WaiterQueue()
    for number in range(100):
        waiter = line.join(key_of(f"w-{number}"), 0)
        if number % 2:
            waiter.given.cancel()
    while first := line.first():
        line.serve(first, "a place")

    assert len(line._waiting) == 0


def lanes_served(line: "WaiterQueue[str]", waiters: list[Waiter[str]], gave: list[int]) -> str:
    """The keys that are served when these lanes give back, in this order."""
    order = ""
    for lane in gave:
        before = {waiter for waiter in waiters if waiter.given.done()}
        serve(line, lane)
        (new,) = {waiter for waiter in waiters if waiter.given.done()} - before
        order += new.key.workflow
    return order


@on_virtual_time
async def test_what_a_lane_gave_back_goes_to_one_of_the_same_lane() -> None:
    line: WaiterQueue[str] = WaiterQueue()
    waiters = [
        line.join(key_of(key), 0, lane)
        for key, lane in zip("abcdef", [1, 1, 2, 1, 2, 3], strict=True)
    ]
    assert lanes_served(line, waiters, [2, 3, 4, 1, 2, 1]) == "cfabed"


@on_virtual_time
async def test_who_gave_up_is_not_preferred() -> None:
    line: WaiterQueue[str] = WaiterQueue()
    first, gone = line.join(key_of("a"), 0, 1), line.join(key_of("b"), 0, 2)
    gone.given.cancel()
    assert line.first(2) is first


@on_virtual_time
async def test_the_first_is_passed_over_for_a_while_only() -> None:
    line: WaiterQueue[str] = WaiterQueue()
    waiters = [line.join(key_of("a"), 0, 1)]
    waiters += [line.join(key_of("b"), 0, 2) for _ in range(100)]
    order = lanes_served(line, waiters, [2] * 50)
    assert order == "b" * PASSED_OVER_MAX + "a" + "b" * (49 - PASSED_OVER_MAX)


@on_virtual_time
async def test_a_key_that_holds_more_than_the_first_is_not_preferred() -> None:
    held = {"a": 2, "b": 3, "c": 2}
    line: WaiterQueue[str] = WaiterQueue(held=lambda key: (0, held[key.workflow]))
    waiters = [line.join(key_of(key), 0, lane) for key, lane in zip("abc", [1, 2, 2], strict=True)]
    assert lanes_served(line, waiters, [2]) == "c"
    assert lanes_served(line, waiters, [2]) == "a"


@on_virtual_time
async def test_a_tenant_that_holds_more_than_the_first_is_not_preferred() -> None:
    """Each of its many workflows holds nothing."""
    line: WaiterQueue[str] = WaiterQueue(held=lambda key: (int(key.tenant == "crowd"), 0))
    waiters = [line.join(key_of("a", "small"), 0, 1)]
    waiters += [line.join(key_of(key, "crowd"), 0, 2) for key in "bcd"]
    assert lanes_served(line, waiters, [2]) == "a"


@on_virtual_time
async def test_a_key_without_a_share_is_not_preferred() -> None:
    line: WaiterQueue[str] = WaiterQueue(lambda key: key.workflow != "b")
    waiters = [line.join(key_of(key), 0, lane) for key, lane in zip("abc", [1, 2, 2], strict=True)]
    assert lanes_served(line, waiters, [2]) == "c"
