"""Above a high mark a lane takes nothing in; below half of it, it goes on."""

from services.worker.context import Limits
from services.worker.core.tally import Tally
from services.worker.lane.queue import Queue
from services.worker.lane.valve import Valve
from tests.unit.builders import after, ticket

LIMITS = Limits(max_in_flight=10, held_max=3, lane_requests_max=4, lane_bytes_max=1_000)


class NotingIntake:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def seek(self, offset: int) -> None:
        self.told.append(f"seek {offset}")

    async def start_offset(self) -> tuple[int, int]:
        raise AssertionError

    async def prove(self, offset: int) -> None:
        raise AssertionError


class Stage:
    def __init__(self, tally: Tally | None = None) -> None:
        self.intake, self.queue, self.tally = NotingIntake(), Queue(), tally or Tally()
        self.valve = Valve(self.intake, LIMITS, self.tally)
        self.valve.open_at(7)

    def told(self) -> list[str]:
        told, self.intake.told = self.intake.told, []
        return told

    def put(self, *names: str) -> None:
        for name in names:
            self.queue.put(ticket(name, name))

    def regulate(self, backlog_bytes: int = 0) -> list[str]:
        self.valve.regulate(self.queue, backlog_bytes)
        return self.told()


def test_opening_seeks_before_it_resumes() -> None:
    assert Stage().told() == ["seek 7", "resume"]


def test_it_shuts_at_the_mark_in_requests_and_opens_at_half_of_it() -> None:
    stage = Stage()
    stage.told()
    stage.put("a", "b", "c")
    assert stage.regulate() == []

    stage.put("d")
    assert stage.regulate() == ["pause"]
    assert stage.regulate() == []

    for _ in range(2):
        stage.queue.finish(next(iter([stage.queue.take() or ticket()])))
        told = stage.regulate()
    assert told == ["resume"]


def test_bytes_count_those_held_and_those_that_are_yet_to_be_written() -> None:
    """A flood of undecodable records makes letters, not tickets."""
    stage = Stage()
    stage.told()
    stage.put("a")

    assert stage.regulate(backlog_bytes=900) == ["pause"]
    assert stage.regulate(backlog_bytes=401) == []
    assert stage.regulate(backlog_bytes=400) == ["resume"]


def test_retries_held_by_all_lanes_shut_each_of_them() -> None:
    tally = Tally()
    one, other = Stage(tally), Stage(tally)
    one.told(), other.told()
    for name in "abc":
        held = ticket(name, name)
        other.queue.put(held)
        other.queue.take()
        other.queue.hold(held, after(60))

    assert other.regulate() == ["pause"]
    assert one.regulate() == ["pause"]
    assert tally.held == 3

    other.valve.count_held(0)

    assert one.regulate() == ["resume"]


def test_after_a_rebalance_a_full_lane_is_shut_again() -> None:
    stage = Stage()
    stage.put("a", "b", "c", "d")
    stage.regulate()
    stage.valve.open_at(9)
    stage.told()

    assert stage.regulate() == ["pause"]
