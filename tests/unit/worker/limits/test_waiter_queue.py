"""Who is served next."""

from services.worker.limits.slots import PASSED_OVER_MAX, Reservation, WaiterQueue
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.limits.holding import key_of


def join(line: WaiterQueue, key: str, lane: int | None = None, tenant: str = "") -> Reservation:
    asked = Reservation(key_of(key, tenant), 0, lane)
    line.join(asked)
    return asked


def serve(line: WaiterQueue, lane: int | None = None) -> None:
    """Give a place to the first, when this lane gave it back."""
    first = line.first(lane)
    assert first is not None
    line.serve(first)


def served(line: WaiterQueue, waiters: list[Reservation], count: int) -> list[str]:
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
    line = WaiterQueue()
    waiters = [join(line, "crowd") for _ in range(1_000)]
    waiters += [join(line, "b"), join(line, "c"), join(line, "b")]

    assert served(line, waiters, 6) == ["crowd", "b", "c", "crowd", "b", "crowd"]


@on_virtual_time
async def test_who_gave_up_is_passed_over() -> None:
    line = WaiterQueue()
    waiters = [join(line, "a"), join(line, "a"), join(line, "b")]
    waiters[0].given.cancel()

    assert line.first() is waiters[1]
    waiters[1].given.cancel()
    assert line.first() is waiters[2]
    line.serve(waiters[2])
    assert line.first() is None
    assert waiters[2].given.done()


@on_virtual_time
async def test_a_line_holds_nothing_of_those_who_left() -> None:
    line = WaiterQueue()
    for number in range(100):
        waiter = join(line, f"w-{number}")
        if number % 2:
            waiter.given.cancel()
    while first := line.first():
        line.serve(first)

    assert len(line._waiting) == 0


def lanes_served(line: WaiterQueue, waiters: list[Reservation], gave: list[int]) -> str:
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
    line = WaiterQueue()
    waiters = [
        join(line, key, lane=lane) for key, lane in zip("abcdef", [1, 1, 2, 1, 2, 3], strict=True)
    ]
    assert lanes_served(line, waiters, [2, 3, 4, 1, 2, 1]) == "cfabed"


@on_virtual_time
async def test_who_gave_up_is_not_preferred() -> None:
    line = WaiterQueue()
    first, gone = join(line, "a", lane=1), join(line, "b", lane=2)
    gone.given.cancel()
    assert line.first(2) is first


@on_virtual_time
async def test_the_first_is_passed_over_for_a_while_only() -> None:
    line = WaiterQueue()
    waiters = [join(line, "a", lane=1)]
    waiters += [join(line, "b", lane=2) for _ in range(100)]
    order = lanes_served(line, waiters, [2] * 50)
    assert order == "b" * PASSED_OVER_MAX + "a" + "b" * (49 - PASSED_OVER_MAX)


@on_virtual_time
async def test_a_key_that_holds_more_than_the_first_is_not_preferred() -> None:
    held = {"a": 2, "b": 3, "c": 2}
    line = WaiterQueue(held=lambda key: (0, held[key.workflow]))
    waiters = [join(line, key, lane=lane) for key, lane in zip("abc", [1, 2, 2], strict=True)]
    assert lanes_served(line, waiters, [2]) == "c"
    assert lanes_served(line, waiters, [2]) == "a"


@on_virtual_time
async def test_a_tenant_that_holds_more_than_the_first_is_not_preferred() -> None:
    """Each of its many workflows holds nothing."""
    line = WaiterQueue(held=lambda key: (int(key.tenant == "crowd"), 0))
    waiters = [join(line, "a", tenant="small", lane=1)]
    waiters += [join(line, key, tenant="crowd", lane=2) for key in "bcd"]
    assert lanes_served(line, waiters, [2]) == "a"


@on_virtual_time
async def test_a_key_without_a_share_is_not_preferred() -> None:
    line = WaiterQueue(lambda key: key.workflow != "b")
    waiters = [join(line, key, lane=lane) for key, lane in zip("abc", [1, 2, 2], strict=True)]
    assert lanes_served(line, waiters, [2]) == "c"
