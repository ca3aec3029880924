"""Open runs: by workflow and request, so that a namesake in another workflow changes nothing."""

from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.request_key import CallKey
from answerbus.topics import TOPIC_OF_KIND
from services.console.state.open_runs import OpenRuns
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.runs.events import (
    WORKFLOW,
    approval_asked,
    asked,
    call,
    decided,
    ended,
    event,
    result,
    step,
)
from tests.unit.operators.stored_examples import NOON_MS, body_of

CALL = "r-1.call.1.0"
AGENT = {"name": "support"}


def fold(*events: Event) -> OpenRuns:
    found = OpenRuns()
    for offset, one in enumerate(events):
        take(found, one, offset=offset)
    return found


def take(runs: OpenRuns, one: Event, *, offset: int = 0, at_ms: int = NOON_MS) -> None:
    stored = Stored(TOPIC_OF_KIND[one.kind], 0, offset, at_ms, b"k", encode(one).value, ())
    runs.take(summarize(stored))


def a_waiting_run(workflow: str) -> list[Event]:
    waits = call("r-1", 1, state="awaits_approval")
    return [
        asked("r-1", agent=AGENT, workflow_id=workflow),
        step("r-1", 1, waits, workflow_id=workflow),
        approval_asked(CALL, workflow_id=workflow),
    ]


def test_runs_of_two_workflows_with_one_id_are_two() -> None:
    found = fold(*a_waiting_run(WORKFLOW), *a_waiting_run("stranger"))

    assert [run.workflow_id for run in found.runs(NOON_MS)] == [WORKFLOW, "stranger"]
    places = [found.place_of(CallKey(name, CALL)) for name in (WORKFLOW, "stranger")]
    assert [place.offset for place in places if place] == [2, 5]


def test_what_happens_to_a_namesake_changes_nothing() -> None:
    """It ends, its call ends, and a person decides about it: the run still waits."""
    for end in (
        decided(CALL, workflow_id="stranger"),
        ended(CALL, workflow_id="stranger"),
        result("r-1", workflow_id="stranger"),
    ):
        found = fold(*a_waiting_run("stranger"), *a_waiting_run(WORKFLOW), end)

        run = next(run for run in found.runs(NOON_MS) if run.workflow_id == WORKFLOW)
        assert list(run.awaiting) == [CALL]
        assert found.place_of(CallKey("stranger", CALL)) is None


def test_what_is_too_old_to_be_open_is_not_kept() -> None:
    """A console reads steps of 30 days, and results of 7: those before had none for it."""
    found, days = OpenRuns(), 24 * 3600 * 1000
    for day in range(30):
        take(found, step(f"r-{day}", 1), at_ms=NOON_MS + day * days)
    take(found, step("late", 1), at_ms=NOON_MS)  # of another partition

    assert [run.request_id for run in found.runs(NOON_MS)] == [f"r-{n}" for n in range(23, 30)]


def test_a_decision_that_no_worker_has_read_is_known_and_asks_no_person_any_more() -> None:
    call_key, approval = CallKey(WORKFLOW, CALL), event("approval/approved", call_id=CALL)
    waiting = a_waiting_run(WORKFLOW)
    for events in ([approval, *waiting], [*waiting, approval]):
        found = fold(*events)
        assert found.decision_on(call_key) == "Approved by kafka:ops"
        assert found.asked_ms(NOON_MS) == []
        assert found.place_of(call_key) is None

    void = event("control_applied/nothing", control=body_of("approval/approved", call_id=CALL))
    found = fold(*waiting, approval, void)
    assert found.decision_on(call_key) is None
    assert found.asked_ms(NOON_MS) == [NOON_MS]


def test_a_decision_about_an_earlier_delivery_is_not_one_about_this() -> None:
    call_key, approval = CallKey(WORKFLOW, CALL), event("approval/approved", call_id=CALL)
    again = event("approval_requested/refund_again", request_id="r-1", call_id=CALL)
    second = event("approval/approved", call_id=CALL, delivery=2)

    found = fold(*a_waiting_run(WORKFLOW), approval, decided(CALL), again)
    assert (found.decision_on(call_key), found.asked_ms(NOON_MS)) == (None, [NOON_MS])
    assert found.place_of(call_key) is not None

    found = fold(*a_waiting_run(WORKFLOW), approval, decided(CALL), again, second)
    assert (found.decision_on(call_key), found.asked_ms(NOON_MS)) == ("Approved by kafka:ops", [])


def test_a_decision_before_a_question_is_not_one_about_a_delivery_after_it() -> None:
    """Deliveries are counted anew once a person has answered what the tool asked."""
    call_key, ours = CallKey(WORKFLOW, CALL), {"request_id": "r-1", "call_id": CALL}
    before = event("approval/approved", call_id=CALL, delivery=2)
    again = event("approval_requested/refund_again", **ours)
    anew = event("approval_requested/refund_again", **ours, after_input=1)
    after = event("approval/approved", call_id=CALL, delivery=2, after_input=1)

    known = [*a_waiting_run(WORKFLOW), again, before, decided(CALL), anew]
    found = fold(*known)
    assert (found.decision_on(call_key), found.asked_ms(NOON_MS)) == (None, [NOON_MS])
    assert found.place_of(call_key) is not None

    found = fold(*known, after)
    assert (found.decision_on(call_key), found.asked_ms(NOON_MS)) == ("Approved by kafka:ops", [])


def test_the_approval_of_a_call_does_not_answer_what_its_tool_asks_then() -> None:
    call_key, approval = CallKey(WORKFLOW, CALL), event("approval/approved", call_id=CALL)
    asks = event("input_requested/by_tool", request_id="r-1", call_id=CALL, number=1)
    answer = event("input/declined", call_id=CALL, number=1)
    before = [*a_waiting_run(WORKFLOW), decided(CALL), asks]

    for events in ([*before, approval], [approval, *before]):
        found = fold(*events)
        assert (found.decision_on(call_key), found.asked_ms(NOON_MS)) == (None, [NOON_MS])
        assert found.place_of(call_key) is not None

    found = fold(*before, approval, answer)
    assert (found.decision_on(call_key), found.asked_ms(NOON_MS)) == ("Answered by ops@acme", [])


def test_a_run_that_ended_is_not_opened_again_by_what_is_read_late() -> None:
    first, *rest = a_waiting_run(WORKFLOW)
    found = fold(first, result("r-1"), *rest, *a_waiting_run("stranger"))

    assert [run.workflow_id for run in found.runs(NOON_MS)] == ["stranger"]
