"""Every row of a request's life, met in a queue; and who alone may change it."""

import ast
from datetime import timedelta
from pathlib import Path

import pytest

from answerbus.cause import Cancelled
from services.worker.core.request.life import TRANSITIONS, Life, RequestEvent, RequestState
from services.worker.lane.state.queue import Queue
from tests.unit.worker.builders import NOW, after, lane_request
from tests.unit.worker.lane.noted import noted

WORKER = Path(__file__).parents[5] / "services" / "worker"
CAUSE = Cancelled(by="a person", reason="why")
RETRY_AFTER = timedelta(seconds=5)
RETRY_AT = NOW + RETRY_AFTER


class Story:
    """A request in a queue, brought into a state; `first` is before it in its workflow."""

    def __init__(self, state: RequestState, event: RequestEvent) -> None:
        self.queue, self.first, self.one = Queue(), lane_request("r-0"), lane_request("r-1")
        if state is RequestState.WAITING:
            self.queue.put(self.first)
            self.queue.take()
            self._found_in_the_middle(event)
        self.queue.put(self.one)
        if state not in {
            RequestState.WAITING,
            RequestState.READY,
        } and not self._ends_before_its_turn(state, event):
            assert self.queue.take() is self.one
        # No retry is later than its deadline, but what an opening finds may say anything.
        self.retry_at = (
            self.one.deadline + RETRY_AFTER if event is RequestEvent.DEADLINE else RETRY_AT
        )
        self._set_aside(state)

    def _found_in_the_middle(self, event: RequestEvent) -> None:
        """By an opening, of a request whose workflow has another one before it."""
        if event is RequestEvent.RETRY:
            self.one.life = Life(until=RETRY_AT, then=RequestEvent.RETRY)
        if event is RequestEvent.STEP:
            self.one.await_tools_first()

    def _ends_before_its_turn(self, state: RequestState, event: RequestEvent) -> bool:
        return state is RequestState.ENDING and event in {RequestEvent.TURN, RequestEvent.DEADLINE}

    def _set_aside(self, state: RequestState) -> None:
        queue, one = self.queue, self.one
        match state:
            case RequestState.DELAYED:
                queue.delay(one, self.retry_at, one.progress)
            case RequestState.AWAITING_BUDGET:
                queue.await_budget(one, after(0))
            case RequestState.AWAITING_TOOLS:
                queue.await_tools(one, one.progress)
            case RequestState.ENDING:
                queue.cancel(one, CAUSE)
            case _:
                pass

    def happens(self, event: RequestEvent) -> None:  # noqa: C901  # one line for each
        queue, one, is_first = self.queue, self.one, self.one.state is not RequestState.WAITING
        match event:
            case RequestEvent.ADMITTED:
                queue.finish(self.first)
            case RequestEvent.TURN if one.state is RequestState.ENDING:
                assert queue.run_to_end(one)
            case RequestEvent.TURN:
                assert queue.take() is one
            case RequestEvent.WAITED:
                queue.wait(one, one.progress)
            case RequestEvent.RETRY | RequestEvent.STEP if not is_first:
                queue.finish(self.first)
            case RequestEvent.RETRY:
                queue.delay(one, RETRY_AT, one.progress)
            case RequestEvent.STEP:
                queue.await_tools(one, one.progress)
            case RequestEvent.BUDGET_GONE:
                queue.await_budget(one, after(0))
            case RequestEvent.BUDGET_BACK:
                queue.budget_back(one.request.account_id)
            case RequestEvent.DUE:
                assert queue.wake(RETRY_AT) == []
            case RequestEvent.SIGNAL:
                queue.signal(one)
            case RequestEvent.CANCELLED:
                queue.cancel(one, CAUSE)
            case RequestEvent.DEADLINE:
                assert one in queue.wake(one.deadline)
            case RequestEvent.OUTCOME:
                queue.finish(one)
            case RequestEvent.REOPENED:
                self.queue = Queue()
                self.queue.adopt(one)


@pytest.mark.parametrize(
    ("state", "event"),
    TRANSITIONS,
    ids=lambda one: one.name if isinstance(one, RequestState) else None,
)
def test_each_row_is_met_by_a_request_in_a_queue(state: RequestState, event: RequestEvent) -> None:
    story = Story(state, event)
    assert story.one.state is state

    with noted() as met:
        story.happens(event)

    assert (state, event) in met
    assert story.one.state is TRANSITIONS[state, event]
    ended(story)


def ended(story: Story) -> None:
    """Whatever was the last that happened, it comes to its end by its deadline."""
    queue, one = story.queue, story.one
    for other in queue.wake(one.deadline) + list(iter(queue.take, None)):
        queue.finish(other)
    for cancelled in queue.take_ending(64):
        if queue.run_to_end(cancelled):
            queue.finish(cancelled)
    if one.state is not RequestState.DONE:
        queue.finish(one)
    assert (one.state, one.key in queue.requests) == (RequestState.DONE, False)


def test_what_a_state_has_goes_with_it() -> None:
    queue, one = Queue(), lane_request()
    queue.put(one)
    queue.take()

    queue.delay(one, RETRY_AT, one.progress)
    assert one.life.until == RETRY_AT

    queue.cancel(one, CAUSE)
    queue.cancel(one, Cancelled(by="another", reason="later"))
    assert one.life == Life(RequestState.ENDING, cause=CAUSE)

    assert queue.run_to_end(one)
    assert one.cancelled == CAUSE, "also while it runs"


@pytest.mark.parametrize(
    ("state", "event"),
    [(s, e) for s in RequestState for e in RequestEvent if (s, e) not in TRANSITIONS],
)
def test_anything_else_is_a_bug(state: RequestState, event: RequestEvent) -> None:
    with pytest.raises(LookupError):
        Life(state).after(event)


def test_a_request_that_is_in_no_queue_yet_can_be_shown() -> None:
    assert "request_id='r-1'" in repr(lane_request("r-1"))


def writers() -> dict[str, set[str]]:
    """By file, what is assigned to a request in a lane, and where it is handed an event."""
    found: dict[str, set[str]] = {}
    for path in WORKER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            named = [one for one in targets if isinstance(one, ast.Attribute)]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                named += [node.func] if node.func.attr == "handle_event" else []
            for one in named:
                if isinstance(one.value, ast.Name) and one.value.id == "lane_request":
                    found.setdefault(path.name, set()).add(one.attr)
    return found


@pytest.mark.wide
def test_the_queue_alone_hands_events_on_and_nobody_writes_what_a_request_has() -> None:
    assert writers() == {"queue.py": {"handle_event"}}


def test_a_deadline_that_is_put_off_by_the_clock_lets_a_request_go_on() -> None:
    """It ran for that; the broker's time was corrected, and it is asked after all."""
    queue, one = Queue(), lane_request()
    queue.put(one)
    assert queue.wake(one.deadline) == [one]

    queue.await_tools(one, one.progress)
    assert one.state is RequestState.AWAITING_TOOLS
    queue.signal(one)
    assert queue.take() is one
