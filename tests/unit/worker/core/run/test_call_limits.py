"""The limits of what a step may call: arguments, calls, and the time of an approval."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from answerbus.answers.agent_action import ACTIONS_MAX
from answerbus.budget import Usage
from answerbus.call_outcome import CallOk
from answerbus.cause import Cancelled
from answerbus.limits import (
    AGENT_TOOLS_MAX,
    ENVELOPE_EXTRA_BYTES_MAX,
    RECORD_BYTES_MAX,
    STEP_ACTIONS_MAX,
    STEP_CALLS_MAX,
    TOOL_ARGS_BYTES_MAX,
)
from answerbus.private.runs import AgentDefinition, Delegation, RunCallRecord, RunStepRecord
from answerbus.step import Step, ToolEnded
from services.worker.core.attempt.check import TooLarge, check
from services.worker.core.run import transitions
from services.worker.core.run.asked_calls import wanted_children
from services.worker.core.run.call_changes import Change
from services.worker.core.run.repeats import must_finish
from services.worker.core.run.run import ASK_PERSON, Run
from services.worker.core.schema.resolved import AcceptedStep, WireSchema
from services.worker.dialects.dispatch import compile_for
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import ORIGIN
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    asked,
    call,
    definition,
    inputs,
    sent,
    step,
    step_schema,
    taken,
    tool,
)
from tests.unit.worker.lane.delegating import delegate

BY = Cancelled(by="ops", reason="why")


def outcomes(change: Change) -> list[str]:
    return [event.outcome.kind for event in change.written if isinstance(event, ToolEnded)]


@pytest.mark.parametrize(("over", "kinds"), [(0, []), (1, ["invalid_args"])])
def test_arguments_have_64_kib_at_most(over: int, kinds: list[str]) -> None:
    loose = definition(tool(schema={"type": "object"}))
    around = len('{"order_id":""}')
    large = "x" * (TOOL_ARGS_BYTES_MAX - around + over)
    change = taken(Run(loose), call(order_id=large))

    assert outcomes(change) == kinds
    assert len(sent(change)) == 1 - len(kinds)
    (asked,) = change.run.steps[0].calls
    assert bool(asked.args) == (over == 0), "what is too large is not written down either"


def test_arguments_are_read_once_and_not_again_for_each_record() -> None:
    loose = definition(tool(schema={"type": "object"}))
    change = taken(Run(loose), call(order_id=[[1], [2]]))

    (asked,) = change.run.steps[0].calls
    assert sent(change)[0].args["order_id"] is asked.args["order_id"]


def test_a_step_has_32_calls_at_most_and_the_others_end_as_not_run() -> None:
    many = (call(order_id=str(number)) for number in range(STEP_CALLS_MAX + 2))
    change = taken(Run(definition(parallel_max=STEP_CALLS_MAX)), *many)

    assert len(sent(change)) == STEP_CALLS_MAX
    assert outcomes(change) == ["not_run", "not_run"]


def test_as_many_wrong_calls_as_an_answer_can_have_fit_in_one_record() -> None:
    """Each is told which tools there are: 500 times that would be more than a record holds."""
    tools = [tool(f"orders.{'t' * 100}{number}") for number in range(AGENT_TOOLS_MAX)]
    many = (call("orders.unknown") for _ in range(STEP_ACTIONS_MAX))
    change = taken(Run(definition(*tools)), *many)

    assert outcomes(change) == ["unknown_tool"] * STEP_CALLS_MAX + ["not_run"] * (
        STEP_ACTIONS_MAX - STEP_CALLS_MAX
    )
    sizes = [len(event.model_dump_json().encode()) for event in change.written]
    assert max(sizes) < RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX
    assert ACTIONS_MAX <= STEP_ACTIONS_MAX


def test_what_is_wrong_with_all_calls_of_a_step_fits_in_one_record() -> None:
    """A control character takes six bytes of JSON, in names of the model and of the schema."""
    rules: list[JsonValue] = [{"enum": [f"{number}" + "\x01" * 200]} for number in range(20)]
    loose = tool(schema={"type": "object", "additionalProperties": {"allOf": rules}})
    wrong = {"\x01" * 224: ""}
    change = taken(Run(definition(loose)), *(call(**wrong) for _ in range(STEP_CALLS_MAX)))

    assert outcomes(change) == ["invalid_args"] * STEP_CALLS_MAX
    (record,) = [event for event in change.written if isinstance(event, RunStepRecord)]
    assert len(record.model_dump_json().encode()) < RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX


def test_a_step_that_is_written_longer_than_it_came_is_too_large() -> None:
    """`1e15` has four bytes, and is written as `1000000000000000.0`."""
    numbers = ",".join(["1e15"] * 5_000)
    one = f'{{"kind":"tool_call","name":"orders.get","args":{{"n":[{numbers}]}}}}'
    resolved = step_schema(definition(tool(schema={"type": "object"})))
    wire = compile_for("prompted", resolved)
    assert isinstance(wire, WireSchema)

    checked = [
        check(f'{{"actions":[{",".join([one] * count)}]}}', resolved, wire) for count in (1, 3)
    ]
    assert [type(found) for found in checked] == [AcceptedStep, TooLarge]


def test_an_approval_has_time_until_the_deadline_of_its_run() -> None:
    change = taken(
        Run(definition(tool(approval="always"), tool("orders.look"))), call(), call("orders.look")
    )
    over = replace(inputs(), now=inputs().deadline)

    assert outcomes(transitions.stopped(change.run, BY, inputs())) == ["cancelled", "cancelled"]
    assert outcomes(transitions.stopped(change.run, BY, over)) == ["expired", "cancelled"]


def test_a_step_that_comes_when_its_run_is_ending_calls_nobody_and_says_so() -> None:
    of = definition(tool("orders.look"), tool("orders.pay", approval="always"), ask_person=True)
    question: dict[str, JsonValue] = {"question": "Where?", "json_schema": {}}
    asks: dict[str, JsonValue] = {"kind": "tool_call", "name": ASK_PERSON, "args": question}
    answer = step(of, call("orders.look"), call("orders.pay"), asks)
    over = replace(inputs(), now=inputs().deadline, is_ending=True)
    change = transitions.take_step(Run(of), answer, 1, USAGE, Usage(), ACCOUNT, over)

    event, _ = change.written  # and the record of the step
    assert isinstance(event, Step)
    assert [one.state for one in event.calls] == ["waiting", "awaits_approval", "awaits_input"]
    assert outcomes(transitions.stopped(change.run, BY, over)) == [
        "cancelled",
        "expired",
        "expired",
    ]


def after_many_steps(of: AgentDefinition, steps: int = 99, **change: object) -> Run:
    """A run whose model asked for as many calls as it may in each step, none of which was made.

    `change` is made to the calls of each step but the first.
    """
    run = taken(Run(of), *(call(f"unknown-{number}") for number in range(STEP_ACTIONS_MAX))).run
    for n in range(2, steps + 1):
        names = {one.call_id: one.call_id.replace(".1.", f".{n}.", 1) for one in run.steps[0].calls}
        calls = [
            one.model_copy(update={"call_id": names[one.call_id], **change})
            for one in run.steps[0].calls
        ]
        step_ = run.steps[0].model_copy(update={"n": n, "attempt": n, "calls": tuple(calls)})
        known = {names[name]: one for name, one in run.calls.items() if name in names}
        run = replace(run, steps=(*run.steps, step_), calls={**run.calls, **known})
    return run


def test_a_step_takes_no_longer_for_the_calls_that_were_beyond_the_limit_in_those_before() -> None:
    of = definition(steps_max=100, delegate=Delegation())
    run, most = after_many_steps(of), range(STEP_ACTIONS_MAX - STEP_CALLS_MAX)
    wanted = step(
        of, *(delegate(f"part-{n}") for n in range(STEP_CALLS_MAX)), *(call(str(n)) for n in most)
    )
    children = dict(wanted_children(asked(), run, wanted))
    of_step = replace(inputs(), children=children, origin=ORIGIN)
    with cpu_time() as took:
        change = transitions.take_step(run, wanted, 100, USAGE, USAGE, ACCOUNT, of_step)
        must_finish(run)

    assert took.is_below(0.4)
    assert len(outcomes(change)) == len(most) + STEP_CALLS_MAX - Delegation().children_max
    records = [one for one in change.written if isinstance(one, RunCallRecord)]
    assert len(records) == of.parallel_max + 1, "of those not made only the last has one"


def test_a_question_to_a_person_takes_no_longer_for_the_results_that_its_run_has() -> None:
    """It is given none of them; all calls of all steps were looked through for each question."""
    of = definition(steps_max=100, ask_person=True)
    run = after_many_steps(of, outcome=None)
    results = {one.call_id: one for step_ in run.steps for one in step_.calls[:STEP_CALLS_MAX]}
    known = {
        name: RunCallRecord(
            workflow_id=None, request_id="r-1", n=1, place=0, outcome=CallOk(value=0)
        )
        for name in results
    }
    questions = [
        call(ASK_PERSON, question=str(number), json_schema={}) for number in range(STEP_CALLS_MAX)
    ]
    with cpu_time() as took:
        change = taken(replace(run, calls=known), *questions)

    assert took.is_below(0.15)
    assert len(change.run.open) == STEP_CALLS_MAX
