"""What a run may do next: its schema in each dialect, and how an answer to it is read."""

import json
import re
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from answerbus.answers.specialist import Specialist
from answerbus.failure import Invalid
from answerbus.request import ContractRef, InlineRef
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.run import Run
from services.worker.core.run.step_schema import END_ACTIONS_MAX, resolve_step
from services.worker.core.schema.resolved import (
    Accepted,
    AcceptedStep,
    JsonObject,
    ResolvedSchema,
    Unusable,
    WireSchema,
)
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.unit.worker.core.run_builders import (
    actions,
    asked,
    call,
    definition,
    final,
    says,
    step_schema,
    thinks,
    tool,
)

DELIVERY = InlineRef(
    name="delivery",
    wrapped=False,
    json_schema={
        "type": "object",
        "properties": {"state": {"enum": ["shipped", "lost"]}, "of": {"$ref": "#/$defs/id"}},
        "required": ["state", "of"],
        "additionalProperties": False,
        "$defs": {"id": {"type": "string"}},
    },
)
WRAPPED = InlineRef(name="delivery", json_schema=DELIVERY.json_schema)
DELIVERED: JsonObject = {"state": "shipped", "of": "4711"}
DIALECTS = get_args(DialectName)


def finishes(args: Any = None) -> dict[str, Any]:
    return {"kind": "finish", "args": args or DELIVERED}


def codes(read: object) -> list[tuple[str, str]]:
    assert isinstance(read, Invalid), read
    return [(problem.path, problem.code) for problem in read.problems]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("count", [1, 48])
def test_every_dialect_carries_typed_names_and_arguments(dialect: DialectName, count: int) -> None:
    many = definition(*(tool(f"orders.tool_{number}") for number in range(count)))
    resolved = step_schema(many, DELIVERY)

    wire = compile_for(dialect, resolved)

    assert isinstance(wire, WireSchema), wire
    text = wire.text + wire.instructions
    assert all(f"orders.tool_{number}" in text for number in range(count))
    assert "order_id" in text
    assert "shipped" in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_a_step_that_must_finish_no_tool_can_be_called(dialect: DialectName) -> None:
    resolved = step_schema(definition(), DELIVERY, must_finish=True)
    wire = compile_for(dialect, resolved)

    assert isinstance(wire, WireSchema)
    assert "orders.get" not in wire.text + wire.instructions
    assert codes(resolved.read(actions(call())))


def test_a_schema_admits_what_is_read_and_is_a_schema() -> None:
    schema = step_schema(definition(), WRAPPED).schema
    assert schema is not None
    Draft202012Validator.check_schema(schema)
    whole = {"output": DELIVERED, "success": True, "notes": [], "failure_reason": None}

    good = [actions(call(), says("a"), thinks("b")), actions(finishes(whole))]
    bad = [actions(call("orders.rm")), actions(call(order_id="x")), actions(), {}]

    validator = Draft202012Validator(schema)
    assert [validator.is_valid(one) for one in (*good, *bad)] == [True, True] + [False] * 4


def test_texts_of_whoever_serves_a_tool_are_not_in_the_schema() -> None:
    fields: JsonObject = {
        "type": "object",
        "title": "CANARY-1",
        "description": "CANARY-2",
        "properties": {"description": {"type": "string", "description": "CANARY-3"}},
    }
    resolved = step_schema(definition(tool("orders.get", fields, description="CANARY-4")))

    text = json.dumps(resolved.schema)
    assert "CANARY" not in text
    assert '"description": {"type": "string"}' in text  # a property that is called so stays


def test_an_answer_in_text_is_offered_before_the_tools() -> None:
    schema = step_schema(definition(tool("orders.get"), tool("orders.list"))).schema
    assert schema is not None

    Draft202012Validator.check_schema(schema)
    kinds = re.findall(r'"kind": {"const": "(\w+)"}', json.dumps(schema))
    assert kinds == ["text_response", "tool_call", "tool_call", "thought"]


def test_calls_and_texts_are_a_step() -> None:
    read = step_schema(definition()).read(actions(thinks("hm"), says("Looking."), call(), call()))

    assert isinstance(read, AcceptedStep)
    assert read.said == ("Looking.",)
    assert [(wanted.tool, wanted.outcome) for wanted in read.calls] == [("orders.get", None)] * 2
    assert read.rationale == "hm"


def test_texts_alone_end_a_text_run() -> None:
    read = step_schema(definition()).read(actions(says("One."), thinks("hm"), says("Two.")))

    assert read == Accepted("One.\n\nTwo.", rationale="hm")


def test_an_end_is_short_and_says_nothing_twice() -> None:
    """A small model repeated its answer until the limit of tokens cut it, in each attempt."""
    ending = step_schema(definition(), must_finish=True)
    again = [says("Paris.")] * (END_ACTIONS_MAX + 1)
    assert ending.schema is not None

    assert ending.read(actions(*again)) == Accepted("Paris.", rationale=None)
    validator = Draft202012Validator(ending.schema)
    assert validator.is_valid(actions(*again[:END_ACTIONS_MAX]))
    assert not validator.is_valid(actions(*again))


def test_thoughts_are_shown_where_the_agent_says_so() -> None:
    read = step_schema(definition(show_thoughts=True)).read(actions(thinks("hm"), says("One.")))

    assert read == Accepted("One.\n\nhm", rationale="hm")


def test_finish_ends_a_typed_run_with_the_answer_alone() -> None:
    resolved = step_schema(definition(), DELIVERY)

    assert resolved.read(actions(thinks("hm"), finishes())) == Accepted(DELIVERED, rationale="hm")
    assert resolved.id == final(DELIVERY).id


def test_a_refusing_variant_of_a_contract_is_declined() -> None:
    resolved = step_schema(definition(), ContractRef(name="plan_proposal", version=1))
    refuse = {"kind": "refuse", "reason": "out_of_scope", "detail": "No.", "rationale": "Why."}

    read = resolved.read(actions(finishes(refuse)))

    assert isinstance(read, Accepted)
    assert read.declined is not None
    assert read.rationale == "Why."


def test_a_wrapped_answer_is_published_with_its_notes() -> None:
    whole = {"output": None, "success": False, "notes": ["n"], "failure_reason": "no order"}
    read = step_schema(definition(), WRAPPED).read(actions(finishes(whole)))

    assert isinstance(read, Accepted)
    assert Specialist.model_validate(read.answer).failure_reason == "no order"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (actions(thinks("hm")), ("/actions", "only_thoughts")),
        (actions(says("  ")), ("/actions", "only_thoughts")),
    ],
)
def test_a_text_run_that_says_nothing_is_asked_again(
    answer: dict[str, Any], found: tuple[str, str]
) -> None:
    assert codes(step_schema(definition()).read(answer)) == [found]


@pytest.mark.parametrize(
    ("answer", "path", "code"),
    [
        (actions(says("done")), "/actions", "no_finish"),
        (actions(call(), finishes()), "/actions/1", "early_finish"),
        (actions(finishes(), finishes()), "/actions/1", "two_ends"),
        (actions(finishes({"state": "burnt", "of": "1"})), "/actions/0/args/state", "enum"),
    ],
)
def test_an_end_that_is_none_is_asked_again(answer: dict[str, Any], path: str, code: str) -> None:
    assert codes(step_schema(definition(), DELIVERY).read(answer)) == [(path, code)]


def test_a_wrong_call_ends_alone_and_the_others_are_made() -> None:
    read = step_schema(definition()).read(actions(call("orders.rm"), call(order_id="x"), call()))

    assert isinstance(read, AcceptedStep)
    unknown, wrong, fine = read.calls
    assert unknown.outcome is not None
    assert unknown.outcome.model_dump() == {"kind": "unknown_tool", "known": ("orders.get",)}
    assert wrong.outcome is not None
    assert wrong.outcome.kind == "invalid_args"
    assert fine.outcome is None


def test_text_in_the_place_of_an_answer_is_the_answer_of_a_text_run() -> None:
    resolved = step_schema(definition(malformed="text"))

    assert resolved.malformed_is_text
    assert resolved.from_text is not None
    assert resolved.from_text("Hello.") == Accepted("Hello.")


@pytest.mark.parametrize("of_agent", ["retry", "text"])
def test_what_the_request_says_of_text_goes_before_its_agent(of_agent: Any) -> None:
    of = definition(malformed=of_agent)
    for text in ("retry", "text"):
        resolved = resolve_step(of, final(), must_finish=False, malformed=text)
        assert isinstance(resolved, ResolvedSchema)
        assert resolved.malformed_is_text == (text == "text")


def test_a_hostile_schema_of_a_tool_is_never_compiled() -> None:
    hostile = tool("orders.get", {"$ref": "http://example.com/x"})

    assert isinstance(resolve_step(definition(hostile), final(), must_finish=False), Unusable)


def test_the_first_step_is_asked_as_the_request_with_the_agent_around_it() -> None:
    of = definition(tool("orders.get", description="CANARY"))
    request = asked(context={"instructions": "Where is 4711?"})

    step = next_step_request(request, Run(of), must_finish=False)

    assert step.context.instructions.startswith("You help.")
    assert step.context.instructions.endswith("Where is 4711?")
    assert "CANARY" not in step.context.instructions
    assert [(fact.name, fact.trust) for fact in step.context.facts] == [
        ("tool orders.get", "untrusted")
    ]
    assert "CANARY" in json.dumps(step.context.facts[0].value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Hello.", "Hello."),
        ('{"actions": [{"kind": "thought", "content": "hm"}]}', None),
        ('{"actions": [{"kind": "thought"}, {"kind": "text_response", "content": "Hi."}]}', "Hi."),
        ('[{"kind": "thought", "content": "hm"}]', None),
        ('{"kind": "thought", "content": "hm"}', None),
        ('{"kind": "text_response", "content": "Hi."}', "Hi."),
        ('{"actions": [{"kind": "thought", "content": "h', None),
        ('{"n": 1}', '{"n": 1}'),
        ('"a text"', '"a text"'),
    ],
)
def test_what_is_taken_as_a_text_tells_no_thought(text: str, message: str | None) -> None:
    from_text = step_schema(definition()).from_text
    assert from_text is not None
    read = from_text(text)
    assert (read.answer if isinstance(read, Accepted) else None) == message

    shows = step_schema(definition(show_thoughts=True)).from_text
    assert shows is not None
    assert shows(text) == Accepted(text)
