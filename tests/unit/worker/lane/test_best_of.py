"""Runs of `best_of`: proposals side by side, and one choice among their ids."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from answerbus.registry import Registry
from answerbus.topics import ATTEMPTS
from services.telemetry import metrics
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import CallFacts, Refused, Reply, Unavailable
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.proposing import (
    TITLED,
    ProposingProvider,
    ProposingStage,
    check_choice,
    finished,
    first_of,
    told,
)
from tests.unit.worker.lane.run_world import RunWorker, full_id, run_context
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, events, final_account, until

pytestmark = pytest.mark.wide

Json = dict[str, Any]


@on_virtual_time
async def test_one_of_three_proposals_is_the_answer_and_the_steps_say_why() -> None:
    stage = ProposingStage(criteria="Short is good.")
    result = await told(stage)

    assert result["answer"] == {"title": "Title 2"}
    assert (result["run"]["children"], result["run"]["tool_calls"]) == (3, 3)
    asked, selected = stage.steps("step")
    assert asked["event_id"] == "r-1.propose"
    assert [call["tool"] for call in asked["calls"]] == ["propose"] * 3
    assert [call["args"] for call in asked["calls"]] == [{"profile": "default"}] * 3
    assert selected["chosen"] == full_id("r-1.call.1.2")
    assert selected["said"] == ["call:1.2 was chosen: It is short."]
    assert final_account(stage.broker)["spent"]["attempts"] == 4
    last = stage.provider.prompts[-1]
    assert "Short is good." in last.system
    assert "Title 0" in str(last.turns)
    assert "Title 0" not in last.system, "what was proposed is data"


@on_virtual_time
async def test_steps_without_an_attempt_are_counted_as_the_outcome_counts_them() -> None:
    stage, observer = ProposingStage(), MetricsObserver({"default"}, Registry())
    await stage.worker.drain()
    around = replace(run_context(stage.provider, stage.agent), observer=observer)
    stage.worker = RunWorker(stage.broker, around)
    result = await told(stage)

    counted = {(metric, labels): n for metric, labels, n in observer.counts.samples()}
    steps = counted[metrics.RUN_STEPS, ("support",)]
    assert steps == result["run"]["steps"] == len(stage.steps("step"))


@on_virtual_time
async def test_profiles_take_turns_and_one_that_there_is_not_costs_nothing() -> None:
    stage = ProposingStage(n=4, profiles=("default", "elsewhere"))
    result = await told(stage)

    assert result["answer"] == {"title": "Title 2"}
    kinds = [stage.ended()[f"r-1.call.1.{place}"]["kind"] for place in range(4)]
    assert kinds == ["ok", "invalid_args", "ok", "invalid_args"]
    assert stage.provider.chosen_among == [["call:1.0", "call:1.2"]]
    assert final_account(stage.broker)["spent"]["attempts"] == 3


@on_virtual_time
async def test_proposals_that_fail_are_not_chosen() -> None:
    stage = ProposingStage()
    stage.provider.proposals = {"0": Refused("no", CallFacts()), "1": "{"}
    stage.provider.choose = first_of
    result = await told(stage, policy={"on_invalid": "dead_letter"})

    assert result["answer"] == {"title": "Title 2"}
    assert stage.provider.chosen_among == [["call:1.2"]], "one is left: it is looked at too"
    assert stage.ended()["r-1.call.1.0"] == {"kind": "declined", "reason": "no"}
    assert stage.ended()["r-1.call.1.1"] == {"kind": "dead_letter", "cause": "invalid_answer"}


@on_virtual_time
async def test_without_a_proposal_the_run_says_how_each_ended() -> None:
    stage = ProposingStage()
    stage.provider.proposals = {"0": Refused("no", CallFacts()), "1": "{", "2": "{"}
    dead_letter = await told(stage, policy={"on_invalid": "dead_letter"})

    ended = ["declined", "invalid_answer", "invalid_answer"]
    assert dead_letter["cause"] == {"kind": "children_failed", "ended": ended}
    assert dead_letter["run"]["steps"] == 1
    assert stage.provider.chosen_among == []


@pytest.mark.parametrize("text", ["call:9.9", "r-1.call.1.0", "", "call:1.0 "])
@pytest.mark.parametrize("at_last", ["dead_letter", "unvalidated", "text"])
@on_virtual_time
async def test_no_id_but_those_of_the_proposals_is_taken(text: str, at_last: str) -> None:
    stage = ProposingStage()
    stage.provider.choose = lambda _: text
    dead_letter = await told(stage, budget={"attempts": 5}, policy={"at_last": at_last})

    assert dead_letter["cause"]["kind"] == "budget_exhausted"
    assert len(stage.provider.chosen_among) == 2, "it was told what is wrong, and asked again"
    failures = [prior["failure"]["kind"] for prior in dead_letter["prior"]]
    assert failures == ["invalid", "invalid"]


@on_virtual_time
async def test_a_selector_that_names_no_proposal_is_shown_the_problem_and_corrects_it() -> None:
    stage = ProposingStage()
    stage.provider.choose = lambda names: (
        "call:7.7" if len(stage.provider.chosen_among) == 1 else names[0]
    )
    result = await told(stage)

    assert result["answer"] == {"title": "Title 0"}
    outcomes = [event["outcome"] for event in events(stage.broker, ATTEMPTS)]
    assert outcomes == ["result"] * 3 + ["retry", "result"]


@pytest.mark.parametrize(("attempts", "proposals"), [(3, 2), (4, 3), (9, 3)])
@on_virtual_time
async def test_as_many_are_proposed_as_leave_the_selector_its_step(
    attempts: int, proposals: int
) -> None:
    stage = ProposingStage()
    result = await told(stage, budget={"attempts": attempts})

    assert result["kind"] == "result"
    assert len(stage.children()) == proposals
    assert final_account(stage.broker)["spent"]["attempts"] == proposals + 1


@pytest.mark.parametrize(
    "budget", [{"attempts": 1}, {"attempts": 2}, {"attempts": 9, "tokens": 2_500}]
)
@on_virtual_time
async def test_where_no_two_can_be_proposed_the_run_answers_itself(budget: Json) -> None:
    stage = ProposingStage()
    result = await told(stage, budget=budget)

    assert result["answer"] == {"title": "Own"}
    assert (result["run"]["children"], result["run"]["steps"]) == (0, 0)


@on_virtual_time
async def test_proposals_that_fail_leave_the_selector_its_step() -> None:
    """Retries of one proposal take all that there is but for the last attempt."""
    stage = ProposingStage(n=2)
    stage.provider.proposals = {"0": "{"}
    result = await told(stage, budget={"attempts": 5})

    assert result["answer"] == {"title": "Title 1"}
    cause = {"kind": "dead_letter", "cause": "budget_exhausted"}
    assert stage.ended()["r-1.call.1.0"] == cause
    assert final_account(stage.broker)["spent"]["attempts"] == 5


@on_virtual_time
async def test_an_answer_of_another_form_than_the_agent_proposes_is_not_asked_for() -> None:
    stage = ProposingStage(propose="proposal")
    dead_letter = await told(stage)

    assert dead_letter["cause"]["kind"] == "unsupported_schema"
    assert dead_letter["cause"]["problems"][0]["path"] == "/answer_schema"
    assert stage.provider.prompts == []


@on_virtual_time
async def test_a_contract_is_proposed_and_is_valid_when_it_is_chosen() -> None:
    stage = ProposingStage(propose="proposal")
    fields = {"complete": True, "message": "Done.", "actions": []}
    stage.provider.proposals = {str(place): fields for place in range(3)}
    asked = {"kind": "contract", "name": "proposal", "version": 1}
    result = await told(stage, answer_schema=asked)

    assert result["answer"] == fields
    assert result["schema"]["name"] == "proposal"


@on_virtual_time
async def test_what_no_profile_can_be_asked_ends_before_anything_is_spent() -> None:
    stage = ProposingStage()
    schema = {"kind": "inline", "name": "x", "json_schema": {"type": "strin"}}
    dead_letter = await told(stage, answer_schema=schema)

    assert dead_letter["cause"]["kind"] == "hostile_schema"
    assert stage.provider.prompts == []


@on_virtual_time
async def test_a_slow_proposal_leaves_time_to_choose_among_the_others() -> None:
    stage = ProposingStage()
    stage.provider.proposals = {"0": Unavailable(status=503, ran=False)}
    result = await told(stage, ttl_s=60)

    assert result["answer"] == {"title": "Title 2"}
    assert stage.ended()["r-1.call.1.0"]["cause"] == "deadline_passed"


@pytest.mark.parametrize("at_s", [0.02, 0.06, 0.11])
@on_virtual_time
async def test_a_cancelled_run_ends_after_its_proposals(at_s: float) -> None:
    stage = await ProposingStage.opened("r-1")
    await asyncio.sleep(at_s)
    stage.cancel("r-1")
    await finished(stage)

    assert stage.outcome()["kind"] in {"dead_letter", "result"}


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("place", range(12))
@on_virtual_time
async def test_no_commit_that_fails_loses_a_proposal_or_doubles_it(
    fault: Fault, place: int
) -> None:
    stage = ProposingStage()
    await stage.worker.open()
    stage.broker.faults.extend([None] * place + [fault])
    stage.publish("r-1")
    await finished(stage)

    assert stage.outcome()["kind"] == "result"


@pytest.mark.parametrize("number", range(16))
@on_virtual_time
async def test_a_crash_at_each_point_ends_in_one_answer(number: int) -> None:
    stage = await ProposingStage.opened("r-1")
    await asyncio.sleep(0.01 + 0.02 * number)
    await stage.crash()
    stage.worker.assign(0)
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()
    check_choice(stage)

    assert stage.outcome()["kind"] == "result"
    assert len(stage.children()) == 3


@on_virtual_time
async def test_an_answer_in_text_is_one_that_was_proposed() -> None:
    stage = ProposingStage()
    stage.provider.proposals = {str(place): answered(f"Text {place}.") for place in range(3)}
    result = await told(stage, answer_schema={"kind": "text"})

    assert result["answer"] == "Text 2."


@on_virtual_time
async def test_a_cancellation_just_before_a_run_ends_none_of_its_proposals() -> None:
    """Nor once its lane is opened again, where it is compared with the times of all requests."""
    stage = ProposingStage()
    stage.provider.child_s = 20.0
    await stage.worker.open()
    await asyncio.sleep(5)
    stage.cancel_workflow()
    await asyncio.sleep(0.1)
    stage.publish("r-1", answer_schema=TITLED, budget={"attempts": 10}, ttl_s=299)
    await asyncio.sleep(2)
    await stage.crash()
    stage.worker.assign(0)
    await finished(stage)

    assert [end["kind"] for end in stage.ended().values()] == ["ok"] * 3


@on_virtual_time
async def test_a_run_that_answers_itself_may_ask_a_person_first() -> None:
    question = {"question": "Which?", "json_schema": {"type": "string"}}
    asks = {"actions": [{"kind": "tool_call", "name": "ask_person", "args": question}]}

    class Asking(ProposingProvider):
        def reply_to(self, prompt: Prompt) -> Reply:
            is_first = all(turn.role == "user" for turn in prompt.turns)
            return answered(json.dumps(asks)) if is_first else super().reply_to(prompt)

    stage = ProposingStage({"ask_person": True})
    stage.provider = Asking()
    stage.worker._leave()
    stage.worker = stage.new_worker()
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 2})
    await until(lambda: stage.steps("input_requested") != [])
    (asked,) = stage.steps("input_requested")
    stage.control({"kind": "input", "call_id": asked["call_id"], "value": "This."})
    await finished(stage)

    assert stage.outcome()["answer"] == {"title": "Own"}
