"""What a run had done when it died, and the replay that goes on from it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from answerbus.call_outcome import CallOk, ResultTooLarge
from answerbus.dead_letter import DeadLetter
from answerbus.limits import REQUEST_BYTES_MAX, STEP_CALLS_MAX
from answerbus.registry import Registry
from answerbus.resumed_run import RunResumed
from answerbus.step import ToolEnded
from services.operators.dead_letters.edit import Edits, replacing
from services.operators.dead_letters.effects import Deliveries, may_have_run
from services.operators.dead_letters.forecast import Forecast, KnownNames
from services.operators.dead_letters.past_run import PastRun, past_run
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    ReplayOrder,
    prepare_replay,
)
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.stored import Stored
from services.records.resumed_steps import run_resumed
from services.text.nesting import nests_deeper
from services.worker.core.request.admit import REQUEST_DEPTH_MAX
from services.worker.core.run.tool_outcome import VALUE_DEPTH_MAX
from tests.unit.operators.audit.test_step_verification import a_run, chained, changed
from tests.unit.operators.dead_letters.examples import dead_letter_event
from tests.unit.operators.runs.events import AGENT, call, ended, step
from tests.unit.worker.builders import NOW

ORDER = ReplayOrder("ops@acme", "model is back")
OFTEN: Deliveries = {"orders.get_order": "at_least_once"}


def dead_letter(steps: int = 2, calls: int = 3, **more: Any) -> DeadLetter:
    run = {"agent": AGENT, "steps": steps, "tool_calls": calls}
    request = {"agent": {"name": "support"}, **more.pop("request", {})}
    return dead_letter_event(run=run, request=request, **more)


def past(records: Sequence[Stored] | None = None, deliveries: Deliveries = OFTEN) -> PastRun:
    return past_run(dead_letter(), a_run() if records is None else records, deliveries)


def prepared(
    order: ReplayOrder = ORDER, of: DeadLetter | None = None, found: PastRun | None = None
) -> PreparedReplay:
    replay = prepare_replay(of or dead_letter(), order, NOW, found or past())
    assert isinstance(replay, PreparedReplay), replay
    return replay


def test_steps_and_ends_of_calls_are_taken_over() -> None:
    resumed = prepared().request.resumed

    assert resumed is not None
    assert (resumed.request_id, resumed.number) == ("r-1", 5)
    assert resumed.previous == json.loads(a_run()[-1].value or b"")["hash"]
    assert [[one.call_id for one in step.calls] for step in resumed.steps] == [
        ["r-1.call.1.0", "r-1.call.1.1"],
        ["r-1.call.2.0"],
    ]
    kinds = [one.outcome.kind for step in resumed.steps for one in step.calls]
    assert kinds == ["timed_out", "ok", "ok"]


def test_a_dry_run_says_at_which_step_it_goes_on_and_what_has_happened() -> None:
    forecast = Forecast(KnownNames(None, Registry()))
    forecast.take(DeadLetterKey("w", "letter"), prepared(found=past(deliveries={})))
    (run,) = forecast.runs

    assert run.text() == "goes on at step 3, 3 calls of tools with effects done"
    assert past().effects == ()


def test_to_start_over_names_each_tool_with_effects_that_has_run() -> None:
    order = ReplayOrder("ops", "again", restart=True)
    forecast = Forecast(KnownNames(None, Registry()))
    replay = prepared(order, found=past(deliveries={}))
    forecast.take(DeadLetterKey("w", "letter"), replay)

    assert replay.request.resumed is None
    named = "orders.get_order (timed_out); orders.get_order (ok); orders.get_order (ok)"
    message = f"starts over; tools with effects that may have run: {named}"
    assert forecast.runs[0].text() == message


def test_a_replay_of_a_replay_goes_on_from_all_steps() -> None:
    first = prepared().request
    again = dead_letter(steps=1, calls=1, round=1, request=again_request(first))
    own = chained([step("r-1", 3, call("r-1", 3)), ended("r-1.call.3.0")])
    head = first.resumed.previous if first.resumed else ""
    linked = [changed(own[0], rehash=True, previous=head)]
    first_hash = json.loads(linked[0].value or b"")["hash"]
    linked.append(changed(own[1], rehash=True, previous=first_hash))
    sent = [resumption(again)]
    found = past_run(again, linked, OFTEN, resumptions=sent)

    assert found.fault is None
    assert found.resumed is not None
    assert (len(found.resumed.steps), found.resumed.number) == (3, 7)
    none_of_its_own = dead_letter(steps=0, calls=0, round=1, request=again_request(first))
    found = past_run(none_of_its_own, [], OFTEN, resumptions=sent)
    assert found.resumed == first.resumed


def test_steps_that_no_operator_has_sent_are_not_gone_on_from() -> None:
    """A publisher's dead letter would else become an operator's replay, with what it claims."""
    first = prepared().request
    forged = dead_letter(steps=0, calls=0, round=1, request=again_request(first))
    sent = resumption(forged)
    others: tuple[list[RunResumed], ...] = (
        [],
        [sent.model_copy(update={"request_id": "r-2"})],
        [sent.model_copy(update={"workflow_id": "w-2"})],
        [sent.model_copy(update={"steps_digest": "sha256:" + "0" * 64})],
    )
    for found in others:
        past = past_run(forged, [], OFTEN, resumptions=found)
        assert (past.resumed, past.fault) == (
            None,
            "no operator has sent the steps that it went on from",
        )


def resumption(again: DeadLetter) -> RunResumed:
    request = again.request
    assert request is not None
    assert request.resumed is not None
    return run_resumed(request, request.resumed, "ops", NOW)


def again_request(request: Any) -> dict[str, Any]:
    body: dict[str, Any] = request.model_dump(mode="json", exclude={"workflow_id", "request_id"})
    return body


@pytest.mark.parametrize("missing", range(7))
def test_of_what_is_missing_or_changed_nothing_is_gone_on_from(missing: int) -> None:
    if missing in (4, 5):
        return  # what people are asked and say is in no chain
    records = a_run()
    without = past([*records[:missing], *records[missing + 1 :]])
    other = past(
        [
            *records[:missing],
            changed(records[missing], at="2026-11-22T10:00:00.000Z"),
            *records[missing + 1 :],
        ]
    )

    for found in (without, other):
        assert found.fault is not None
        held_back = prepare_replay(dead_letter(), ORDER, NOW, found)
        assert isinstance(held_back, Rejection)
        assert (held_back.code, held_back.forcible) == ("steps", False)
        assert "--restart" in held_back.text


def test_instructions_and_version_may_be_edited_and_the_agent_may_not() -> None:
    version = replacing("/agent", {"name": "support", "version": 4, "tools": None})
    other = replacing("/agent", {"name": "other", "version": None, "tools": None})
    text = replacing("/context/instructions", "Do it.")
    request = prepared(ReplayOrder("ops", "", Edits((version, text)), profile="large")).request

    assert request.agent is not None
    assert (request.agent.version, request.profile) == (4, "large")
    assert request.resumed is not None
    for forbidden in (other, replacing("/resumed", None)):
        wrong = prepare_replay(dead_letter(), ReplayOrder("", "", Edits((forbidden,))), NOW, past())
        assert isinstance(wrong, Rejection)
        assert wrong.code == "edit"


def test_steps_that_are_too_large_lose_the_oldest_results() -> None:
    many, value = [], "x" * 60_000
    for n in range(1, 13):
        many += [step("r-1", n, call("r-1", n))]
        many += [ended(f"r-1.call.{n}.0", outcome={"kind": "ok", "value": value})]
    found = past_run(dead_letter(steps=12, calls=12), chained(many), OFTEN)
    request = prepared(of=dead_letter(steps=12, calls=12), found=found).request

    assert request.resumed is not None
    outcomes = [step.calls[0].outcome for step in request.resumed.steps]
    assert isinstance(outcomes[0], ResultTooLarge)
    assert outcomes[0].bytes == 60_002
    assert isinstance(outcomes[-1], CallOk)
    assert len(request.model_dump_json()) <= REQUEST_BYTES_MAX


def test_the_deepest_result_of_a_call_fits_into_a_replay() -> None:
    value = json.loads("[" * VALUE_DEPTH_MAX + "]" * VALUE_DEPTH_MAX)
    outcome = {"kind": "ok", "value": value}
    events = chained([step("r-1", 1, call("r-1", 1)), ended("r-1.call.1.0", outcome=outcome)])
    replay = prepared(of=dead_letter(1, 1), found=past_run(dead_letter(1, 1), events, OFTEN))

    body = json.loads(replay.request.model_dump_json())
    assert body["resumed"]["steps"][0]["calls"][0]["outcome"]["value"] == value
    assert not nests_deeper(body, REQUEST_DEPTH_MAX)


def test_steps_of_too_many_values_lose_the_oldest_results() -> None:
    many = []
    for n in range(1, 4):
        many += [step("r-1", n, call("r-1", n))]
        many += [ended(f"r-1.call.{n}.0", outcome={"kind": "ok", "value": [1] * 7_000})]
    found = past_run(dead_letter(steps=3, calls=3), chained(many), OFTEN)
    request = prepared(of=dead_letter(steps=3, calls=3), found=found).request

    assert request.resumed is not None
    kinds = [step.calls[0].outcome.kind for step in request.resumed.steps]
    assert kinds == ["too_large", "too_large", "ok"]


def delegated(place: int, **args: Any) -> dict[str, Any]:
    return call("r-1", 1, place, tool="delegate", args=args)


def test_effects_of_a_tree_are_those_of_its_children_too() -> None:
    """Of each delegated call the tools that its child called, and never the call itself."""
    calls = [delegated(0), delegated(1, agent="a"), delegated(2, agent="a"), call("r-1", 1, 3)]
    own = chained([step("r-1", 1, *calls), *(ended(one["call_id"]) for one in calls)])
    pay: dict[str, Any] = {"tool": "orders.pay"}
    child, deeper = "r-1.call.1.1", "r-1.call.1.1.call.1.1"
    below = [
        step(child, 1, call(child, 1), call(child, 1, 1, tool="delegate", args={"agent": "a"})),
        ended(f"{child}.call.1.0"),
        step(f"{deeper}.2", 1, call(f"{deeper}.2", 1, **pay), call(f"{deeper}.2", 1, 1, **pay)),
        ended(f"{deeper}.2.call.1.0"),
        step("r-1.call.1.11", 1, call("r-1.call.1.11", 1, **pay)),
    ]
    found = past_run(dead_letter(1, 4), own, OFTEN, chained(below))

    effects = [(effect.call_id, effect.outcome.kind) for effect in found.effects]
    assert effects == [
        (f"{deeper}.2.call.1.0", "ok"),
        (f"{deeper}.2.call.1.1", "timed_out"),
        ("r-1.call.1.2", "ok"),
    ], "the last is a child with an agent of which no step is found"


def test_a_step_that_asked_for_more_calls_than_run_is_taken_over() -> None:
    calls = [call("r-1", 1, place) for place in range(STEP_CALLS_MAX + 8)]
    ends = [ended(one["call_id"]) for one in calls[:STEP_CALLS_MAX]]
    ends += [ended(one["call_id"], "not_run_calls") for one in calls[STEP_CALLS_MAX:]]
    found = past_run(dead_letter(1, len(calls)), chained([step("r-1", 1, *calls), *ends]), OFTEN)

    assert found.fault is None
    request = prepared(of=dead_letter(1, len(calls)), found=found).request
    assert request.resumed is not None
    assert len(request.resumed.steps[0].calls) == len(calls)


def test_a_tool_whose_call_is_not_run_has_had_no_effect() -> None:
    ran = {}
    for name in (
        "ok",
        "timed_out",
        "timed_out_before_it_ran",
        "denied",
        "expired",
        "expired_after_it_asked",
        "invalid_args",
        "cancelled",
    ):
        end = ended("r-1.call.1.0", name)
        assert isinstance(end, ToolEnded)
        ran[name] = may_have_run(end.outcome)

    assert {name for name, has_run in ran.items() if has_run} == {
        "ok",
        "timed_out",
        "expired_after_it_asked",
        "cancelled",
    }
