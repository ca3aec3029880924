"""Above a high mark a lane takes nothing in; below half of it, it goes on."""

from services.worker.lane.backpressure import Backpressure
from services.worker.lane.context import Limits
from services.worker.lane.state.queue import Queue
from services.worker.ports.observer import WorkerCounters
from tests.unit.worker.builders import after, lane_request

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
    def __init__(self, counters: WorkerCounters | None = None) -> None:
        self.intake, self.queue, self.counters = (
            NotingIntake(),
            Queue(),
            counters or WorkerCounters(),
        )
        self.backpressure = Backpressure(self.intake, LIMITS, self.counters)
        self.backpressure.resume_at(7)

    def told(self) -> list[str]:
        reported, self.intake.told = self.intake.told, []
        return reported

    def put(self, *names: str) -> None:
        for name in names:
            self.queue.put(lane_request(name, name))

    def fill_with(self, numbers: range) -> None:
        """Small requests of one workflow."""
        for number in numbers:
            small = lane_request(f"crowd-{number}", "crowd")
            small.size_bytes = 1
            self.queue.put(small)

    def regulate(self, backlog_bytes: int = 0) -> list[str]:
        self.backpressure.update(self.queue, backlog_bytes)
        return self.told()


def test_opening_seeks_before_it_resumes() -> None:
    assert Stage().told() == ["seek 7", "resume"]


def test_what_was_paused_by_its_lane_stays_so_until_the_lane_says_where_to_go_on() -> None:
    """While one record is read alone, those behind it would be handed over for nothing."""
    stage = Stage()
    stage.told()

    stage.backpressure.pause()
    assert stage.told() == ["pause"]
    assert stage.regulate() == []
    assert stage.backpressure.is_paused

    stage.backpressure.resume_at(9)
    assert stage.told() == ["seek 9", "resume"]
    assert not stage.backpressure.is_paused


def test_it_shuts_at_the_mark_in_requests_and_opens_at_half_of_it() -> None:
    stage = Stage()
    stage.told()
    stage.put("a", "b", "c")
    assert stage.regulate() == []

    stage.put("d")
    assert stage.regulate() == ["pause"]
    assert stage.regulate() == []

    for _ in range(2):
        stage.queue.finish(next(iter([stage.queue.take() or lane_request()])))
        reported = stage.regulate()
    assert reported == ["resume"]


def test_bytes_count_those_held_and_those_that_are_yet_to_be_written() -> None:
    """A flood of undecodable records makes letters, not requests."""
    stage = Stage()
    stage.told()
    stage.put("a")

    assert stage.regulate(backlog_bytes=900) == ["pause"]
    assert stage.regulate(backlog_bytes=401) == []
    assert stage.regulate(backlog_bytes=400) == ["resume"]


def test_retries_held_by_all_lanes_shut_each_of_them() -> None:
    counters = WorkerCounters()
    one, other = Stage(counters), Stage(counters)
    one.told(), other.told()
    for name in "abc":
        held = lane_request(name, name)
        other.queue.put(held)
        other.queue.take()
        other.queue.delay(held, after(60), held.progress)

    assert other.regulate() == ["pause"]
    assert one.regulate() == ["pause"]
    assert counters.held == 3

    other.backpressure.reset()

    assert one.regulate() == ["resume"]


def test_after_a_rebalance_a_full_lane_is_shut_again() -> None:
    stage = Stage()
    stage.put("a", "b", "c", "d")
    stage.regulate()
    stage.backpressure.resume_at(9)
    stage.told()

    assert stage.regulate() == ["pause"]


def test_many_requests_of_one_workflow_do_not_keep_those_behind_from_being_read() -> None:
    stage = Stage()
    stage.told()
    stage.fill_with(range(24))
    assert stage.regulate() == []

    stage.fill_with(range(24, 33))
    assert stage.regulate() == ["pause"]


def test_when_all_lanes_together_hold_enough_each_has_its_share() -> None:
    limits = Limits(max_in_flight=10, held_max=100, lane_requests_max=100, lane_bytes_max=10**6)
    counters = WorkerCounters()
    lanes = [Stage(counters) for _ in range(4)]
    for lane in lanes:
        lane.backpressure._limits = limits
        lane.told()
        lane.regulate()

    lanes[0].put(*(f"r-{n}" for n in range(19)))
    assert lanes[0].regulate() == [], "alone it may use what the others do not"
    lanes[1].put("a")
    lanes[1].regulate()
    assert (lanes[0].regulate(), lanes[1].regulate()) == (["pause"], [])

    lanes[1].put(*(f"s-{n}" for n in range(4)))
    assert lanes[1].regulate() == ["pause"]
    lanes[0].backpressure.reset()
    assert lanes[1].regulate() == ["resume"]


def test_waiting_retries_keep_no_record_from_being_read_until_their_own_limit() -> None:
    stage = Stage()
    stage.backpressure._limits = Limits(
        max_in_flight=1, held_max=100, lane_requests_max=4, lane_bytes_max=10**6
    )
    stage.told()
    for number in range(99):
        held = lane_request(f"held-{number}", f"w-{number}")
        stage.queue.put(held)
        stage.queue.take()
        stage.queue.delay(held, after(7_200), held.progress)
    assert stage.regulate() == []

    stage.put("a", "b")
    assert stage.regulate() == ["pause"], "two rounds of one call each are ahead"
