"""Calls with which servers go on: from their state after a crash, by the answer to a question."""

import random
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.cause import Cancelled
from answerbus.continued_call import ToolContinue, ToolQuestion
from answerbus.control import Input, InputRequested
from answerbus.limits import (
    CALL_INPUTS_MAX,
    EDITED_ARGS_VALUES_MAX,
    TOOL_DELIVERIES_MAX,
    TOOL_TIMEOUT_S_MAX,
)
from answerbus.step import ToolEnded
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolProgress
from services.text.digest import text_digest
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.run import Run
from tests.unit.worker.builders import after
from tests.unit.worker.core.run_builders import call, definition, inputs, result, sent, taken, tool

TIMEOUT_S = 30.0
HISTORIES, EVENTS = 100, 60
STREET: dict[str, Any] = {
    "type": "object",
    "properties": {"street": {"type": "string"}},
    "required": ["street"],
}
FITS: JsonValue = {"street": "High Street"}
ASKS: dict[str, Any] = {"question": "Where to?", "json_schema": STREET}


def called(delivery: str = "at_most_once", *, ask_person: bool = True) -> Change:
    tools = tool("orders.pay", delivery=delivery)
    return taken(Run(definition(tools, ask_person=ask_person)), call("orders.pay"))


def delivered(change: Change) -> Any:
    """The call, or what goes on with it."""
    found = [e for e in change.written if isinstance(e, ToolCallRecord | ToolContinue)]
    (only,) = found
    return only


def token_of(of: ToolCallRecord | ToolContinue) -> str:
    return (of.call if isinstance(of, ToolContinue) else of).reply.token


def progress(of: ToolCallRecord | ToolContinue, **more: Any) -> ToolProgress:
    body = {"call_id": of.call_id, "workflow_id": of.workflow_id, "token": token_of(of)}
    return ToolProgress.model_validate({**body, **more})


def said(change: Change, seconds: float, of: Any, **more: Any) -> Change:
    found = transitions.on_signal(change.run, progress(of, **more), inputs(seconds))
    assert found is not None
    return found


def passed(change: Change, seconds: float) -> Change:
    return transitions.on_timeout(change.run, inputs(seconds))


def kept(state: str = "task-1") -> Change:
    change = called()
    return said(change, 1, delivered(change), state=state)


def asked(delivery: str = "at_most_once", **more: Any) -> Change:
    change = called(delivery)
    return said(change, 1, delivered(change), state="round-1", asks={**ASKS, **more})


def requested(change: Change) -> InputRequested:
    (only,) = (event for event in change.written if isinstance(event, InputRequested))
    return only


def answer(of: InputRequested, value: JsonValue, **more: Any) -> Input:
    body = {"call_id": of.call_id, "workflow_id": of.workflow_id, "number": of.number}
    return Input.model_validate({**body, "by": "ops", "at": after(9), "value": value, **more})


def given(change: Change, value: JsonValue = FITS, seconds: float = 10.0, **more: Any) -> Any:
    of = answer(requested(change), value, **more)
    return transitions.on_input(change.run, of, inputs(seconds))


def ends(change: Change) -> list[dict[str, Any]]:
    return [e.outcome.model_dump() for e in change.written if isinstance(e, ToolEnded)]


def cancelled(change: Change) -> list[tuple[str | None, str | None]]:
    return [(e.tool, e.state) for e in change.written if isinstance(e, ToolCancel)]


def test_a_server_that_died_goes_on_from_its_state_and_begins_nothing_again() -> None:
    change = passed(kept(), 1 + 1.1 * TIMEOUT_S)

    onwards = delivered(change)
    assert isinstance(onwards, ToolContinue)
    assert (onwards.state, onwards.given) == ("task-1", None)
    assert token_of(onwards) != token_of(delivered(called()))
    ended = transitions.on_result(change.run, result(onwards.call), inputs(50))
    assert ended is not None
    assert ends(ended) == [{"kind": "ok", "value": "done"}]


def test_what_goes_on_waits_in_the_topic_until_a_server_is_there_again() -> None:
    change = passed(kept(), 60)

    assert delivered(change).call.expires_at == min(after(60 + TOOL_TIMEOUT_S_MAX), after(3_600))
    assert passed(change, 1_000).written == ()
    at_work = said(change, 1_000, delivered(change), state="task-1")
    assert isinstance(delivered(passed(at_work, 1_040)), ToolContinue)


def test_each_sign_of_life_gives_a_call_its_deliveries_back_and_silence_ends_it() -> None:
    change, seconds = kept(), 1.0
    for _ in range(3 * TOOL_DELIVERIES_MAX):
        seconds += 40
        change = passed(change, seconds)
        change = said(change, seconds, delivered(change), state="task-1")
    for _ in range(TOOL_DELIVERIES_MAX - 1):
        seconds += 40
        change = passed(change, seconds)
        assert ends(change) == []
        change = Change(change.run.with_call(*_due_now(change.run, seconds)))

    over = passed(change, seconds)
    assert ends(over) == [{"kind": "timed_out", "after_s": TIMEOUT_S, "ran": "unknown"}]
    assert cancelled(over) == [("pay", "task-1")]


def _due_now(run: Run, seconds: float) -> Any:
    (only,) = run.open
    assert only.record is not None
    return only.record.model_copy(update={"due_at": after(seconds)}), only.asked.call_id


def test_without_a_state_nothing_goes_on() -> None:
    change = called()
    change = said(change, 1, delivered(change), note="half")

    assert ends(passed(change, 60)) == [
        {"kind": "timed_out", "after_s": TIMEOUT_S, "ran": "unknown"}
    ]


def test_a_question_of_a_tool_names_it_and_its_server_waits() -> None:
    change = asked(to="shipping", expires_s=60)

    question = requested(change)
    assert (question.tool, question.to, question.number) == ("orders.pay", "shipping", 1)
    assert (question.question, question.json_schema) == ("Where to?", STREET)
    assert question.expires_at == after(61)
    assert change.run.stage == "awaits_approval"
    late = transitions.on_signal(change.run, progress(delivered(called())), inputs(2))
    assert late is None


def test_the_first_answer_that_fits_is_delivered_once_with_what_the_server_kept() -> None:
    change = asked()

    assert [one.path for one in given(change, {"street": 1})] == ["/street"]
    first = given(change)
    onwards = delivered(first)
    assert (onwards.state, onwards.given.value, onwards.given.by) == ("round-1", FITS, "ops")
    assert transitions.on_input(first.run, answer(requested(change), FITS), inputs(11)) is None
    ended = transitions.on_result(first.run, result(onwards.call), inputs(12))
    assert ended is not None
    assert ended.run.open == ()


def test_an_answer_that_a_record_has_no_place_for_beside_the_arguments_is_invalid() -> None:
    schema = {"type": "array"}
    many = given(asked(json_schema=schema), [1] * (EDITED_ARGS_VALUES_MAX + 1))

    assert [(one.path, one.code) for one in many] == [("", "too_large")]
    few = given(asked(json_schema=schema), [1] * (EDITED_ARGS_VALUES_MAX // 2))
    assert len(delivered(few).given.value) == EDITED_ARGS_VALUES_MAX // 2


def test_null_declines_to_answer() -> None:
    assert delivered(given(asked(), None)).given.value is None


def test_an_answer_of_a_call_that_must_not_run_twice_is_not_delivered_again() -> None:
    first = given(asked())
    at_work = said(first, 11, delivered(first), note="goes on with an answer")

    silent = passed(at_work, 60)
    assert ends(silent) == [{"kind": "timed_out", "after_s": TIMEOUT_S, "ran": "unknown"}]
    harmless = given(asked("at_least_once"))
    at_work = said(harmless, 11, delivered(harmless))
    assert delivered(passed(at_work, 60)).given.value == FITS


def test_a_second_question_has_a_number_of_its_own() -> None:
    first = given(asked())
    second = said(first, 12, delivered(first), state="round-2", asks=ASKS)

    assert (requested(second).number, requested(second).event_id[-8:]) == (2, ".input.2")
    assert given(second, number=1) is None
    assert delivered(given(second)).state == "round-2"


def test_a_state_after_an_answer_says_that_the_answer_is_used() -> None:
    first = given(asked())
    used = said(first, 12, delivered(first), state="task-9")

    onwards = delivered(passed(used, 60))
    assert (onwards.state, onwards.given) == ("task-9", None)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": {"pattern": "((a{99}){99}){99}"}}},
        {"$ref": "http://169.254.169.254/latest"},
        {"type": "nothing"},
    ],
)
def test_nobody_is_shown_a_form_that_could_harm(schema: dict[str, Any]) -> None:
    change = asked(json_schema=schema)

    assert [one["code"] for one in ends(change)] == ["input_required"]
    assert not [event for event in change.written if isinstance(event, InputRequested)]
    assert cancelled(change) == [("pay", "round-1")]


def test_a_schema_of_more_than_4_kib_is_no_question() -> None:
    with pytest.raises(ValueError, match="bytes"):
        ToolQuestion(question="?", json_schema={"enum": ["x" * 4_096]})


def test_a_question_without_a_state_is_not_asked_since_its_call_would_begin_again() -> None:
    change = called()
    change = said(change, 1, delivered(change), asks=ASKS)

    assert [one["code"] for one in ends(change)] == ["input_required"]


def test_what_was_kept_is_given_up_where_a_question_comes_without_a_state() -> None:
    onwards = passed(kept("task-1"), 1 + 1.1 * TIMEOUT_S)
    change = said(onwards, 40, delivered(onwards), asks=ASKS)

    assert [one["code"] for one in ends(change)] == ["input_required"]
    assert cancelled(change) == [("pay", "task-1")]


def test_nobody_is_asked_once_the_run_is_ending() -> None:
    change = called()
    asks = progress(delivered(change), state="round-1", asks=ASKS)

    assert transitions.on_signal(change.run, asks, replace(inputs(1), is_ending=True)) is None


def test_nobody_is_heard_once_the_run_is_ending() -> None:
    change = asked()
    answered = answer(requested(change), FITS)
    ending = replace(inputs(10), is_ending=True)

    assert transitions.on_input(change.run, answered, ending) is None


@pytest.mark.parametrize("more", [{}, {"state": "theirs"}, {"state": "theirs", "asks": ASKS}])
def test_only_who_could_read_the_call_can_report_its_progress(more: dict[str, Any]) -> None:
    change = called()
    reported = progress(delivered(change), **more)
    forged = reported.model_copy(update={"token": "AAAAAAAAAAAAAAAAAAAAAA=="})

    assert transitions.on_signal(change.run, reported, inputs(10)) is not None
    assert transitions.on_signal(change.run, forged, inputs(10)) is None


def test_a_server_that_has_asked_cannot_change_its_question() -> None:
    change = called()
    made = delivered(change)
    change = said(change, 1, made, state="round-1", asks=ASKS)
    another = progress(made, state="round-2", asks={**ASKS, "question": "Really?"})

    assert transitions.on_signal(change.run, another, inputs(2)) is None


def test_an_agent_that_may_not_ask_people_has_no_tool_that_does() -> None:
    change = called(ask_person=False)
    change = said(change, 1, delivered(change), state="round-1", asks=ASKS)

    (outcome,) = ends(change)
    assert (outcome["kind"], outcome["code"]) == ("error", "input_required")
    assert "may not ask people" in outcome["message"]


def test_a_call_asks_only_so_often() -> None:
    change = called()
    for _ in range(CALL_INPUTS_MAX):
        change = said(change, 1, delivered(change), state="s", asks=ASKS)
        change = given(change)

    change = said(change, 1, delivered(change), state="s", asks=ASKS)
    assert [one["code"] for one in ends(change)] == ["input_required"]


def test_a_question_expires_and_ends_with_its_run_and_its_server_hears_of_it() -> None:
    change = asked(expires_s=60)
    late = passed(change, 61)
    in_vain = [{"kind": "expired", "ran": "unknown"}]  # it had begun
    assert (ends(late), cancelled(late)) == (in_vain, [("pay", "round-1")])

    over = transitions.stopped(change.run, Cancelled(by="me", reason="late"), inputs(3_601))
    assert ends(over) == in_vain
    stopped = transitions.stopped(change.run, Cancelled(by="me", reason="enough"), inputs(2))
    assert ([one["kind"] for one in ends(stopped)], cancelled(stopped)) == (
        ["cancelled"],
        [("pay", "round-1")],
    )


def test_an_answer_waits_for_a_toolset_that_is_away() -> None:
    change = asked()
    at = inputs(500)
    at.tools.unavailable.failed("orders", after(499))

    waiting = transitions.on_input(change.run, answer(requested(change), FITS), at)
    assert isinstance(waiting, Change)
    assert not sent(waiting)
    assert ends(waiting) == []


@pytest.mark.wide
def test_no_course_of_events_begins_twice_or_delivers_an_answer_twice() -> None:
    assert sum(map(answers_in_history, range(HISTORIES))) > HISTORIES // 2


def answers_in_history(seed: int) -> int:
    """All that was ever published is answered at any time, in any order, also again."""
    chance, seconds, change = random.Random(seed), 0.0, called()
    seen, begun, used = list[Any](), 0, list[int]()
    for _ in range(EVENTS):
        run = change.run
        for event in change.written:
            if isinstance(event, ToolCallRecord):
                begun += 1
            if isinstance(event, ToolContinue) and event.given is not None:
                used.append(next(iter(run.calls.values())).inputs_asked)
            if isinstance(event, ToolCallRecord | ToolContinue | InputRequested):
                seen.append(event)
        assert begun <= 1, seed
        assert len(used) == len(set(used)), seed
        seconds += chance.choice([0, 1, 31, 40])
        change = _next(run, chance, seen, seconds)
    return len(used)


def _next(run: Run, chance: random.Random, seen: list[Any], seconds: float) -> Change:
    if chance.random() < 0.4:
        return transitions.on_timeout(run, inputs(seconds))
    of = seen[-1] if chance.random() < 0.7 else chance.choice(seen)
    if isinstance(of, InputRequested):
        value: Any = chance.choice([FITS, FITS, None, {"street": 1}])
        found = transitions.on_input(run, answer(of, value), inputs(seconds))
        return found if isinstance(found, Change) else Change(run)
    more: dict[str, Any] = chance.choice(
        [{}, {"state": "t"}, {"state": f"t{seconds}"}, {"asks": ASKS}, {"state": "s", "asks": ASKS}]
    )
    return transitions.on_signal(run, progress(of, **more), inputs(seconds)) or Change(run)


def test_a_token_of_a_delivery_before_the_answer_counts_no_more() -> None:
    change = asked()
    old = delivered(called())
    onwards = given(change)

    assert text_digest(token_of(delivered(onwards))) in onwards.run.open[0].record.tokens
    assert transitions.on_result(onwards.run, result(old), inputs(12)) is None
