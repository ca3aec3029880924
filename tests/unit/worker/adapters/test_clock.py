"""The clock of a worker: the broker's, not the machine's own."""

from datetime import UTC, datetime, timedelta

from services.kafka.planning.clock_offset import OFFSET_S_MAX, clock_problem
from services.worker.adapters.clock import BrokerClock

BROKER_S = 1_795_000_000.0
DAY_S = 86_400.0


class Machine:
    def __init__(self, wall_s: float) -> None:
        self.wall_s, self.steady_s = wall_s, 50.0
        self.clock = BrokerClock(lambda: self.wall_s, lambda: self.steady_s)

    def goes_on(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds

    def reports(self, broker_s: float, took_s: float = 0.01) -> None:
        before_s = self.steady_s
        self.goes_on(took_s)
        self.clock.set_broker_time(int(broker_s * 1000), before_s, self.steady_s)


def off_s(found: datetime, broker_s: float) -> float:
    return abs((found - datetime.fromtimestamp(broker_s, UTC)).total_seconds())


def test_until_the_broker_tells_its_time_it_is_the_machines() -> None:
    machine = Machine(BROKER_S - DAY_S)

    assert off_s(machine.clock.now(), BROKER_S - DAY_S) == 0
    assert machine.clock.ahead_s is None
    assert not machine.clock.is_measured
    assert machine.clock.age_s == float("inf")


def test_from_then_on_it_is_the_brokers_and_no_jump_moves_it() -> None:
    machine = Machine(BROKER_S - DAY_S)
    machine.reports(BROKER_S)

    assert machine.clock.is_measured
    for jump_s in (0.0, 30 * DAY_S, -60 * DAY_S):
        machine.wall_s += jump_s
        assert off_s(machine.clock.now(), BROKER_S + 0.01) < 0.01
    machine.goes_on(60)
    assert off_s(machine.clock.now(), BROKER_S + 60.01) < 0.01
    assert round(machine.clock.age_s) == 60
    assert machine.clock.ahead_s is not None
    assert abs(machine.clock.ahead_s + 31 * DAY_S) < 0.01


def test_a_correction_does_not_make_it_go_back_and_the_brokers_own_jump_does() -> None:
    machine = Machine(BROKER_S)
    machine.reports(BROKER_S, took_s=0.5)
    before = machine.clock.now()
    machine.reports(BROKER_S + 0.27, took_s=0.001)
    assert machine.clock.now() >= before

    machine.reports(BROKER_S - 3_600)
    assert off_s(machine.clock.now(), BROKER_S - 3_600) < 0.1


def test_a_time_that_is_too_uncertain_is_no_measure() -> None:
    machine = Machine(BROKER_S)
    machine.reports(BROKER_S + 5, took_s=10.0)
    assert not machine.clock.is_measured
    machine.reports(BROKER_S + 10.005)
    assert machine.clock.is_measured


def test_only_a_clock_that_is_far_off_is_a_problem() -> None:
    for ahead_s in (None, 0.0, OFFSET_S_MAX, -OFFSET_S_MAX):
        assert clock_problem(ahead_s) is None
    behind, ahead = clock_problem(-26 * 3_600), clock_problem(timedelta(days=8).total_seconds())

    assert behind is not None
    assert behind.startswith("the clock of this machine is 93,600 s behind the broker's, and 300 s")
    assert ahead is not None
    assert "691,200 s ahead of the broker's" in ahead


def test_it_tells_whole_milliseconds_and_never_one_that_has_not_begun() -> None:
    """Events have no more: each would be cut again, and written out again, for every record."""
    machine = Machine(BROKER_S)
    began = datetime.fromtimestamp(BROKER_S, UTC)
    for passed_s, told_ms in ((0.0, 0), (0.000_9, 0), (0.001_5, 1), (0.999_9, 999), (1.0, 1_000)):
        machine.wall_s = BROKER_S + passed_s
        assert machine.clock.now() == began + timedelta(milliseconds=told_ms)
