"""A run that died and is replayed: no step is asked for again, and no tool is called again."""

import pytest

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.request import Request
from answerbus.topics import DEAD_LETTERS, REQUESTS, RESULTS, STEPS
from services.operators.dead_letters.past_run import past_run
from services.operators.dead_letters.prepare_replay import (
    BudgetOverride,
    PreparedReplay,
    ReplayOrder,
    prepare_replay,
)
from tests.unit.worker.builders import NOW
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.run_checks import cause, finished, stored_in
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, events, until

pytestmark = pytest.mark.wide

TEN = (*(actions(call(order_id=str(n))) for n in range(1, 10)), actions(says("All is well.")))
TAKEN = 6
"""Steps of a run that dies at the seventh: its last attempt may call no tool, and does."""


async def died(attempts: int = TAKEN + 1, steps_max: int = 20) -> RunStage:
    stage = await RunStage.opened(
        "r-1", steps=TEN, agent={"steps_max": steps_max}, asked={"budget": {"attempts": attempts}}
    )
    await until(lambda: done(stage.broker, stage.names))
    assert cause(stage, "r-1") == "budget_exhausted"
    return stage


def replay(stage: RunStage, attempts: int = 20, *, restart: bool = False) -> str:
    """As the replay tool does it, of what is in the topics; gives the new request's id."""
    *_, record = stored_in(stage, DEAD_LETTERS)
    dead_letter = decode(record.value)
    assert isinstance(dead_letter, DeadLetter)
    own = [
        one
        for one in stored_in(stage, STEPS)
        if getattr(decode(one.value), "request_id", None) == dead_letter.request_id
    ]
    budget = BudgetOverride(attempts=attempts)
    # Without what failed: the provider here counts the answers in a prompt as steps.
    order = ReplayOrder("ops", "", budget=budget, keep_prior=False, restart=restart)
    past = past_run(dead_letter, own, {}, resumptions=stage.resumptions)
    found = prepare_replay(dead_letter, order, NOW, past)
    assert isinstance(found, PreparedReplay), found
    stage.resume(found.request)
    return found.request.request_id


async def died_again(stage: RunStage, attempts: int) -> str:
    """A replay that dies as well; gives the id of what replays that one."""
    second = replay(stage, attempts)
    await until(lambda: done(stage.broker, stage.names))
    assert cause(stage, second) == "budget_exhausted"
    third = replay(stage)
    await finished(stage)
    return third


def own_steps(stage: RunStage, name: str) -> list[int]:
    """The numbers of the steps that a request took itself."""
    return [step["n"] for step in stage.steps("step") if step["request_id"] == name]


def repeated(stage: RunStage) -> list[str]:
    """Calls with the arguments of a call that was made before."""
    made = [str(one["args"]) for one in stage.calls() if one["delivery"] == 1]
    return [args for args in made if made.count(args) > 1]


@on_virtual_time
async def test_a_run_that_died_at_step_7_of_10_goes_on_there() -> None:
    stage = await died()
    name = replay(stage)
    await finished(stage)

    asked = [step for request, step in stage.provider.asked_of if request == name]
    assert sorted(asked) == [6, 7, 8, 9], "what was answered is not paid again"
    assert repeated(stage) == []
    assert own_steps(stage, name) == [7, 8, 9]
    (result,) = events(stage.broker, RESULTS)
    assert (result["request_id"], result["answer"]) == (name, "All is well.")
    assert (result["run"]["steps"], result["run"]["tool_calls"]) == (3, 3)
    first = next(p for p in stage.provider.prompts if p.request_id == name)
    assert "done" in str(first.turns), "the model is told what the calls came to"


@on_virtual_time
async def test_a_replay_that_dies_is_replayed_from_all_that_was_done() -> None:
    stage = await died()
    third = await died_again(stage, attempts=2)

    assert own_steps(stage, third) == [8, 9]
    assert repeated(stage) == []


@on_virtual_time
async def test_a_replay_that_took_no_step_of_its_own_is_replayed_as_well() -> None:
    stage = await died()
    third = await died_again(stage, attempts=1)

    assert own_steps(stage, third) == [7, 8, 9]


@on_virtual_time
async def test_a_run_may_be_started_over() -> None:
    stage = await died()
    name = replay(stage, restart=True)
    await finished(stage)

    assert own_steps(stage, name) == list(range(1, 10))


@on_virtual_time
async def test_steps_that_were_taken_over_count_as_steps_of_the_agent() -> None:
    stage = await died(steps_max=TAKEN + 2)
    stage.provider.steps = (*TEN[: TAKEN + 1], actions(says("Enough.")))
    replay(stage)
    await finished(stage)

    assert "last step" in str(stage.provider.prompts[-1].turns[-1])


@pytest.mark.parametrize("fault", list(Fault))
def test_a_lane_that_is_opened_again_keeps_the_steps_that_it_took_over(fault: Fault) -> None:
    async def history(place: int) -> None:
        stage = await died()
        stage.broker.faults.extend([None] * place + [fault])
        name = replay(stage)
        await finished(stage)
        assert min(step for one, step in stage.provider.asked_of if one == name) == TAKEN
        assert repeated(stage) == []

    for place in range(6):
        run(history(place))


def test_a_worker_that_is_killed_at_any_moment_repeats_nothing_that_was_committed() -> None:
    async def history(after_s: float) -> None:
        stage = await died()
        name = replay(stage)
        await stage.crash_often(3, after_s)
        await finished(stage)
        assert min(step for one, step in stage.provider.asked_of if one == name) == TAKEN
        assert repeated(stage) == []
        assert own_steps(stage, name) == [7, 8, 9]

    for number in range(0, 60, 6):
        run(history(0.013 * number))


@on_virtual_time
async def test_steps_that_no_operator_has_sent_are_not_believed_and_nothing_is_spent() -> None:
    stage = await died()
    name = replay(stage)
    await until(lambda: done(stage.broker, stage.names))
    (sent,) = stage.resumptions
    asked_before = len(stage.provider.calls)
    request = next(
        event
        for event in map(decode, published(stage))
        if isinstance(event, Request) and event.request_id == name
    )
    assert request.resumed
    (first, *rest) = request.resumed.steps
    forged = request.resumed.model_copy(update={"steps": (first, first, *rest)})
    stage.resumptions.append(sent.model_copy(update={"request_id": "other-steps"}))
    for update in (
        {"request_id": "other-id"},
        {"request_id": "other-steps", "resumed": forged},
    ):
        body = request.model_copy(update=update)
        stage.broker.publish(body.model_dump_json().encode(), 0)
        stage.names.append(body.request_id)
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()

    for forgery in ("other-id", "other-steps"):
        assert cause(stage, forgery) == "unverified_steps"
    assert len(stage.provider.calls) == asked_before
    assert repeated(stage) == []


def published(stage: RunStage) -> list[bytes]:
    return [record.value for record in stage.broker.log(REQUESTS, 0).records if record.value]
