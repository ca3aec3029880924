"""Whose turn it is: order within a workflow, nobody lost, nobody starved, deadlines kept."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from answerbus.cause import Cancelled
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Account
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.request.life import RequestState
from services.worker.lane.state.counted_requests import CountedShares
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.timed_requests import RELEASED_MAX
from tests.unit.worker.builders import after, lane_request

UNORDERED: dict[str, Any] = {"policy": {"ordering": "none"}}


def ids(lane_requests: list[LaneRequest]) -> list[str]:
    return [one.request.request_id for one in lane_requests]


def taken(queue: Queue) -> list[LaneRequest]:
    """Everything that may run now."""
    return list(iter(queue.take, None))


def test_only_the_head_of_an_ordered_workflow_runs() -> None:
    queue = Queue()
    first, second = lane_request("a"), lane_request("b")
    queue.put(first)
    queue.put(second)

    assert taken(queue) == [first]

    queue.finish(first)

    assert taken(queue) == [second]


def test_the_unordered_run_side_by_side() -> None:
    queue = Queue()
    for name in "abc":
        queue.put(lane_request(name, **UNORDERED))

    assert ids(taken(queue)) == ["a", "b", "c"]


def test_workflows_take_turns() -> None:
    """One with many requests does not starve the others."""
    queue = Queue()
    for number in range(50):
        queue.put(lane_request(f"big-{number}", "big", **UNORDERED))
    queue.put(lane_request("small", "small"))

    assert "small" in ids(taken(queue))[:2]


def test_a_retry_keeps_its_workflow_waiting_and_comes_first_when_due() -> None:
    queue = Queue()
    first, second = lane_request("a"), lane_request("b")
    queue.put(first)
    queue.put(second)
    assert queue.take() is first

    queue.delay(first, after(10), first.progress)

    assert queue.held == 1
    assert queue.next_moment() == after(10)
    assert queue.wake(after(9)) == []
    assert taken(queue) == []
    assert queue.wake(after(10)) == []
    assert taken(queue) == [first]


def test_the_expired_run_at_once_and_are_not_taken_again() -> None:
    queue = Queue()
    first, second = lane_request("a", ttl_s=100), lane_request("b", ttl_s=5)
    queue.put(first)
    queue.put(second)
    assert queue.take() is first

    assert queue.wake(after(5)) == [second]
    assert queue.running == 2
    assert queue.wake(after(6)) == []


def test_a_successor_that_runs_already_is_not_started_twice() -> None:
    """Its deadline made it run while it waited; the end of the head must not make it ready."""
    queue = Queue()
    first, second, third = (
        lane_request("a", ttl_s=100),
        lane_request("b", ttl_s=5),
        lane_request("c", ttl_s=100),
    )
    for one in (first, second, third):
        queue.put(one)
    assert queue.take() is first
    assert queue.wake(after(5)) == [second]

    queue.finish(first)

    assert taken(queue) == []

    queue.finish(second)

    assert taken(queue) == [third]


def test_a_deadline_that_passed_during_a_call_still_counts() -> None:
    """The retry runs at once, however many others are ready before it."""
    queue = Queue()
    late = lane_request("late", ttl_s=5)
    queue.put(late)
    assert queue.take() is late
    assert queue.wake(after(6)) == []
    for number in range(10):
        queue.put(lane_request(f"other-{number}", f"w-{number}"))

    queue.delay(late, late.deadline, late.progress)

    assert queue.wake(after(6)) == [late]


def test_what_is_gone_leaves_the_memory_before_its_deadline() -> None:
    queue = Queue()
    for number in range(10 * RELEASED_MAX):
        one = lane_request(f"r-{number}", ttl_s=86_400)
        queue.put(one)
        assert queue.take() is one
        queue.finish(one)

    assert len(queue._deadlines._heap) <= RELEASED_MAX + 2
    assert (len(queue), queue.bytes, queue.running, queue.digests) == (0, 0, 0, {})


def test_a_run_of_many_steps_has_one_deadline() -> None:
    queue, one = Queue(), lane_request("r-1", ttl_s=86_400)
    queue.put(one)
    for _ in range(10 * RELEASED_MAX):
        assert queue.take() is one
        queue.await_tools(one, one.progress)
        queue.signal(one)

    assert len(queue._deadlines._heap) <= RELEASED_MAX + 2
    assert queue.wake(one.deadline) == [one]


def test_an_adopted_request_runs_at_the_head_of_its_workflow() -> None:
    before, queue = Queue(), Queue()
    called, later = lane_request("called"), lane_request("later")
    before.put(called)
    assert before.take() is called
    queue.adopt(called)
    queue.put(later)

    assert (called.state, queue.running) == (RequestState.RUNNING, 1)
    assert taken(queue) == []

    queue.delay(called, after(1), called.progress)
    queue.wake(after(1))

    assert taken(queue) == [called]

    queue.finish(called)

    assert taken(queue) == [later]


def test_one_workflow_gets_a_share_of_what_may_run() -> None:
    queue = Queue()
    for number in range(100):
        queue.put(lane_request(f"big-{number}", "big", **UNORDERED))
    running = list(iter(lambda: queue.take(16), None))
    assert len(running) == 14
    queue.put(lane_request("small", "small"))

    assert ids(list(iter(lambda: queue.take(16), None))) == ["small"]

    queue.finish(running[0])

    assert ids(list(iter(lambda: queue.take(16), None))) == ["big-14"]


def test_who_has_no_funds_waits_with_all_of_its_account_until_something_is_settled() -> None:
    queue = Queue()
    for number in range(4):
        queue.put(lane_request(f"poor-{number}", "poor", **UNORDERED))
    queue.put(lane_request("rich", "rich"))
    found_out = queue.take()
    assert found_out is not None
    queue.await_budget(found_out, after(0))

    assert ids(taken(queue)) == ["rich"]
    assert queue.running == 1

    queue.budget_back("poor")
    assert queue.has_budget_back
    assert ids(taken(queue)) == ["poor-0"], "one for each time, in their order"
    assert not queue.has_budget_back
    for number in (1, 2, 3):
        queue.budget_back("poor")
        assert ids(taken(queue)) == [f"poor-{number}"]
    queue.budget_back("poor")
    assert (taken(queue), queue._awaiting_budget) == ([], {})


def test_a_run_that_keeps_its_reserved_minimum_waits_behind_none_that_has_none() -> None:
    queue = Queue()
    for name in ("poor-0", "poor-1", "keeps"):
        queue.put(lane_request(name, "poor", **UNORDERED))
    poor = [queue.take(), queue.take()]
    keeps = queue.requests[RequestKey("poor", "keeps")]
    account = Account("poor", "poor", keeps.request.budget, updated_at=after(0))
    queue.children.set_minimum(keeps, account, reserved=True)
    for one in poor:
        assert one is not None
        queue.await_budget(one, after(0))

    assert taken(queue) == [keeps], "what it needs is kept for it"
    queue.await_budget(keeps, after(0))
    queue.budget_back("poor")
    assert ids(taken(queue)) == ["keeps"], "before those that wait for what it keeps"
    queue.budget_back("poor")
    assert ids(taken(queue)) == ["poor-0"]


def test_the_largest_workflow_is_known_and_counts_its_share() -> None:
    queue = Queue(CountedShares(workflow_max=3))
    for number in range(5):
        queue.put(lane_request(f"big-{number}", "big", **UNORDERED))
    queue.put(lane_request("small", "small"))
    first = queue.take()
    assert first is not None

    assert (queue.largest(), queue.counted.total) == (("big", 5, 1), 4)

    queue.finish(first)
    assert (queue.largest(), queue.counted.total) == (("big", 4, 0), 4)
    while one := queue.take():
        queue.finish(one)
    assert (queue.largest(), queue.counted.total) == (None, 0)


def of(tenant: str) -> dict[str, Any]:
    return {"labels": {"tenant": tenant}}


@pytest.mark.wide
def test_tenants_take_turns_however_many_workflows_one_has() -> None:
    queue = Queue()
    for number in range(10_000):
        queue.put(lane_request(f"big-{number}", f"w-{number}", **of("acme")))
    queue.put(lane_request("small", "small", **of("acme-labs")))  # the other is its prefix
    queue.put(lane_request("none", "none"))

    assert set(ids([one for one in (queue.take() for _ in range(3)) if one])) == {
        "big-0",
        "small",
        "none",
    }


def test_a_tenant_that_fills_all_places_leaves_one_for_the_next() -> None:
    queue = Queue()
    for number in range(100):
        queue.put(lane_request(f"big-{number}", f"w-{number}", **of("acme")))
    running = list(iter(lambda: queue.take(14), None))
    assert len(running) == 14, "alone it has all"

    queue.put(lane_request("small", "small", **of("labs")))

    assert ids(list(iter(lambda: queue.take(14), None))) == ["small"]
    queue.finish(running[0])
    assert queue.take(14) is not None


def test_a_tenant_counts_its_share_and_who_has_none_counts_whole() -> None:
    queue = Queue(CountedShares(tenant_max=3, workflow_max=2))
    for number in range(9):
        queue.put(lane_request(f"big-{number}", f"w-{number // 3}", **UNORDERED, **of("acme")))
    for number in range(5):
        queue.put(lane_request(f"none-{number}", f"none-{number}"))
    queue.put(lane_request("small", "small", **of("labs")))
    assert queue.counted.total == 3 + 5 + 1

    counts = []
    while one := queue.take():
        queue.finish(one)
        counts.append(queue.counted.total)
    assert counts[-1] == 0
    assert counts == sorted(counts, reverse=True)
    assert not queue.counted._of_tenant, "requests may name any"
    assert not queue.counted._of_workflow


class QueueMachine(RuleBasedStateMachine):
    """Any order of events, against a plain list of what was put in."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.clock = 0.0
        self.put_in: dict[str, list[LaneRequest]] = defaultdict(list)
        self.running: list[LaneRequest] = []
        self.number = 0

    @rule(workflow=st.sampled_from("xyz"), ttl_s=st.integers(1, 60), ordered=st.booleans())
    def put(self, workflow: str, ttl_s: int, ordered: bool) -> None:
        self.number += 1
        more: dict[str, Any] = {} if ordered else UNORDERED
        one = lane_request(f"r-{self.number}", workflow, at=after(self.clock), ttl_s=ttl_s, **more)
        self.queue.put(one)
        self.put_in[workflow].append(one)

    @rule()
    def take(self) -> None:
        one = self.queue.take()
        if one is None:
            assert not [t for t in self.all() if t.state is RequestState.READY]
            return
        self.started(one)
        is_late = one.deadline <= after(self.clock)  # it only ends, in its turn or not
        if one.request.policy.ordering == "workflow" and not is_late:
            mine = [
                other
                for other in self.put_in[one.request.workflow_id]
                if other.request.policy.ordering == "workflow"
            ]
            before = mine[: mine.index(one)]
            assert all(other.deadline <= after(self.clock) for other in before), "order is kept"

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        one = self.pick(data)
        self.queue.finish(one)
        self.put_in[one.request.workflow_id].remove(one)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), delay_s=st.floats(0, 100))
    def hold(self, data: st.DataObject, delay_s: float) -> None:
        one = self.pick(data)
        self.queue.delay(one, min(after(self.clock + delay_s), one.deadline), one.progress)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def await_budget(self, data: st.DataObject) -> None:
        self.queue.await_budget(self.pick(data), after(self.clock))

    @rule(workflow=st.sampled_from("xyz"))
    def budget_back(self, workflow: str) -> None:
        before = self.unfunded_of(workflow)
        self.queue.budget_back(workflow)
        woken = before - self.unfunded_of(workflow)
        assert len(woken) == min(len(before), 1)

    def unfunded_of(self, workflow: str) -> set[LaneRequest]:
        return {one for one in self.put_in[workflow] if one.state is RequestState.AWAITING_BUDGET}

    @rule(seconds=st.floats(0, 30))
    def wake(self, seconds: float) -> None:
        self.clock += seconds
        for one in self.queue.wake(after(self.clock)):
            assert one.deadline <= after(self.clock)
            self.started(one)
        for one in self.all():
            assert one in self.running or one.deadline > after(self.clock), "deadlines are kept"
            due = one.life.until is None or one.life.until > after(self.clock)
            assert one.state is not RequestState.DELAYED or due

    def started(self, one: LaneRequest) -> None:
        assert one not in self.running, "nothing runs twice"
        self.running.append(one)

    def pick(self, data: st.DataObject) -> LaneRequest:
        return self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))

    def all(self) -> list[LaneRequest]:
        return [one for workflow in self.put_in.values() for one in workflow]

    @invariant()
    def nothing_is_lost(self) -> None:
        assert set(self.queue.requests.values()) == set(self.all())
        assert self.queue.bytes == 100 * len(self.all())
        assert self.queue.running == len(self.running)
        assert all(one.state is RequestState.RUNNING for one in self.running)

    def teardown(self) -> None:
        """After each history the queue can be worked off to the last request."""
        for _ in range(3 * len(self.all()) + 3):
            for one in self.running:
                self.queue.finish(one)
            for workflow in "xyz":
                self.queue.budget_back(workflow)
            self.running = self.queue.wake(after(self.clock)) + taken(self.queue)
            self.clock += 20
        assert (len(self.queue), self.queue.running, self.queue.largest()) == (0, 0, None)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueMachine = pytest.mark.wide(QueueMachine.TestCase)


def held_twice(queue: Queue) -> LaneRequest:
    """A request that was released before its moment, and is held again for longer."""
    one = lane_request("a")
    queue.put(one)
    queue.take()
    queue.await_tools(one, one.progress)
    queue.signal(one)
    assert queue.take() is one
    queue.delay(one, after(100), one.progress)
    return one


def test_a_request_that_was_released_early_is_not_due_at_its_old_moment() -> None:
    queue = Queue()
    one = held_twice(queue)

    queue.wake(after(11))

    assert one.state is RequestState.DELAYED
    assert taken(queue) == []

    queue.wake(after(100))

    assert taken(queue) == [one]


def test_held_counts_requests_and_not_moments() -> None:
    queue = Queue()
    one = held_twice(queue)

    assert queue.held == 1

    queue.wake(one.deadline)

    assert queue.held == 0


def test_a_request_can_run_at_once_wherever_it_stands() -> None:
    queue = Queue()
    head, waiting, held = lane_request("a"), lane_request("b"), lane_request("c", "other")
    for one in (head, waiting, held):
        queue.put(one)
    assert set(taken(queue)) == {head, held}
    queue.delay(held, after(10), held.progress)

    for one in (head, waiting, held):
        queue.cancel(one, Cancelled(by="a person", reason="why"))
    ending = queue.take_ending(64)
    assert ending == [head, waiting, held]
    assert [queue.run_to_end(one) for one in ending] == [False, True, True]

    assert queue.held == 0
    assert queue.running == 3
    for one in (waiting, held, head):
        queue.finish(one)
    assert queue.running == len(queue) == 0
    queue.wake(after(20))
    assert taken(queue) == []
