"""What the client makes of types and answers, and the ids it gives, without a broker."""

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from aiokafka import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from answerbus.answers.plan_proposal import (
    PLAN_PROPOSAL,
    DepBump,
    PlanProposal,
    PlanProposalOrRefuse,
    Refuse,
)
from answerbus.answers.specialist import SPECIALIST, Specialist
from answerbus.budget import Budget
from answerbus.client import answer_type, uuid7
from answerbus.client.answer_type import KEPT_MAX, TYPE_DISAGREES, AnswerType
from answerbus.client.ask_options import make_request
from answerbus.client.outcome_reader import outcome_in
from answerbus.client.request_id import is_new
from answerbus.client.subscription import item_of
from answerbus.envelope import Undecodable, decode, encode
from answerbus.event import Event, request_of, workflow_of
from answerbus.limits import NOTES_MAX
from answerbus.outcome import Result, UnvalidatedResult
from answerbus.registry import Registry
from answerbus.request import (
    Context,
    ContractId,
    ContractRef,
    Fact,
    InlineId,
    InlineRef,
    Request,
    TextId,
    TextRef,
)
from answerbus.request_key import RequestKey

EXAMPLES = sorted((Path(__file__).parents[2] / "contracts/examples").rglob("*.json"))
DIGEST = "sha256:" + "0" * 64


class Route(BaseModel):
    team: str


@dataclass
class Weather:
    """How it is outside."""

    celsius: Annotated[float, Field(ge=-273.15)]


def of(form: Any) -> AnswerType[Any]:
    return AnswerType.of(form, Registry())


def example(name: str) -> Result[Any]:
    path = Path(__file__).parents[2] / f"contracts/examples/result/{name}.json"
    event = decode(path.read_bytes())
    assert isinstance(event, Result)
    return event


def record(event: Event, *, headers: bool = True) -> ConsumerRecord:
    encoded = encode(event)
    return record_of(encoded.value, encoded.headers if headers else [])


def record_of(value: bytes | None, headers: list[tuple[str, Any]]) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 0, 0, None, value, None, 0, 0, tuple(headers))


def test_a_contracts_type_is_the_contract_and_str_is_text() -> None:
    assert of(PlanProposal).ref == ContractRef(name="plan_proposal", version=1)
    assert of(str).ref == TextRef()


def test_none_is_no_type_of_answers() -> None:
    with pytest.raises(TypeError, match="leave it out for plain text"):
        AnswerType.of(None, Registry())


def test_what_is_made_of_a_type_is_kept_for_the_next_request() -> None:
    registry, bare = Registry(), Registry(())

    assert AnswerType.of(Weather, registry) is AnswerType.of(Weather, registry)
    assert AnswerType.of(PlanProposal, bare).ref != AnswerType.of(PlanProposal, registry).ref
    # They are equal, and their schemas are not.
    unions: tuple[Any, ...] = (int | str, str | int)
    one, other = (AnswerType.of(form, registry).ref for form in unions)
    assert one != other
    for _ in range(KEPT_MAX + 1):
        AnswerType.of(list[int], registry)
    assert len(answer_type._kept) <= KEPT_MAX


def without_closing(schema: Any) -> Any:
    """As pydantic has it: test_closed_classes.py says which objects are closed."""
    match schema:
        case dict():
            return {
                keyword: without_closing(value)
                for keyword, value in schema.items()
                if keyword != "additionalProperties"
            }
        case list():
            return [without_closing(item) for item in schema]
        case _:
            return schema


@pytest.mark.parametrize(
    ("form", "name", "description"),
    [
        (Route, "Route", ""),
        (Weather, "Weather", "How it is outside."),
        (list[Route], "answer", ""),
        (Route | Weather, "answer", ""),
        (DepBump, "DepBump", DepBump.__doc__),
    ],
)
def test_any_other_type_is_its_schema(form: Any, name: str, description: str) -> None:
    """A variant of a contract, too: asked for alone, it is no longer that contract."""
    ref = of(form).ref

    assert isinstance(ref, InlineRef)
    assert (ref.name, ref.description, ref.wrapped) == (name, description, False)
    assert without_closing(ref.json_schema) == without_closing(
        of(form).reader.adapter.json_schema()
    )


def test_a_specialist_of_a_type_is_its_schema_wrapped() -> None:
    ref = of(Specialist[Weather]).ref

    assert isinstance(ref, InlineRef)
    assert (ref.name, ref.description, ref.wrapped) == ("Weather", "How it is outside.", True)
    assert ref.json_schema == TypeAdapter(Weather).json_schema() | {"additionalProperties": False}
    assert of(Specialist).ref == of(Specialist[JsonValue]).ref == SPECIALIST.ref


def test_a_class_that_is_derived_from_a_specialist_is_one() -> None:
    class Forecast(Specialist[Weather]):
        pass

    class Anything(Specialist):
        pass

    assert of(Forecast).ref == of(Specialist[Weather]).ref
    anything = of(Anything).ref
    assert isinstance(anything, InlineRef)
    assert (anything.name, anything.wrapped) == ("answer", True)
    found = of(Forecast).typed(example("inline_wrapped_without_success"))
    assert isinstance(found, Result)
    assert isinstance(found.answer, Forecast)


def test_a_wrapped_result_is_read_into_the_type_of_its_output() -> None:
    class Endpoint(BaseModel):
        method: str
        path: str

    found = of(Specialist[Endpoint]).typed(example("inline_wrapped"))
    none = of(Specialist[Endpoint]).typed(example("inline_wrapped_without_success"))
    wrong = of(Specialist[Weather]).typed(example("inline_wrapped"))

    assert isinstance(found, Result)
    assert found.answer.output == Endpoint(method="GET", path="/invoices")
    assert isinstance(none, Result)
    assert (none.answer.output, none.answer.success) == (None, False)
    assert isinstance(wrong, UnvalidatedResult)


def test_names_that_the_wire_cannot_carry_are_spelt_otherwise() -> None:
    class Odd(BaseModel):
        model_config = {"title": "Was für ein Name!"}

    ref = of(Odd).ref

    assert isinstance(ref, InlineRef)
    assert ref.name == "Was_f_r_ein_Name"


def test_a_result_is_read_into_the_type() -> None:
    read = of(PlanProposal).typed_outcome(example("dep_bump"))

    assert isinstance(read, Result)
    assert read.answer == DepBump(
        kind="dep_bump",
        manifest_path="package.json",
        package="lodash",
        target_version="4.17.21",
    )
    assert read.model_copy(update={"answer": None}) == example("dep_bump").model_copy(
        update={"answer": None}
    )


def test_a_contract_ignores_fields_that_are_newer_than_it() -> None:
    result = example("dep_bump")
    newer = result.model_copy(update={"answer": {**result.answer, "since_v1_1": 1}})

    assert of(PlanProposal).typed_outcome(newer) == of(PlanProposal).typed_outcome(result)


def test_a_type_with_the_refusing_variant_asks_for_the_same_contract() -> None:
    assert of(PlanProposalOrRefuse).ref == of(PlanProposal).ref == PLAN_PROPOSAL.ref


def test_a_result_that_refuses_is_none_of_its_type() -> None:
    """No worker writes one: user code that ends with `assert_never` is never surprised by it."""
    result = example("dep_bump")
    answer = {"kind": "refuse", "reason": "out_of_scope", "detail": "No."}

    read = of(PlanProposal).typed_outcome(result.model_copy(update={"answer": answer}))

    assert isinstance(read, UnvalidatedResult)
    assert read.unvalidated_answer == answer


def test_what_the_type_refuses_is_no_result() -> None:
    result = example("dep_bump")
    escaped = result.model_copy(update={"answer": {**result.answer, "manifest_path": "../x"}})

    read = of(PlanProposal).typed_outcome(escaped)

    assert isinstance(read, UnvalidatedResult)
    assert read.unvalidated_answer == escaped.answer
    assert [(p.path, p.code) for p in read.problems] == [("/manifest_path", "escapes_sandbox")]
    assert read.notes == (*result.notes, TYPE_DISAGREES)
    assert read.event_id == result.event_id


def test_the_note_on_that_always_has_room() -> None:
    result = example("text").model_copy(update={"notes": ("n",) * NOTES_MAX})

    read = of(Route).typed_outcome(result)

    assert len(read.notes) == NOTES_MAX
    assert read.notes[-1] == TYPE_DISAGREES


@pytest.mark.parametrize(
    ("form", "schema", "covered"),
    [
        (PlanProposal, ContractId(name="plan_proposal", version=1, digest=DIGEST), True),
        (PlanProposal, ContractId(name="plan_proposal", version=2, digest=DIGEST), False),
        (PlanProposal, ContractId(name="other", version=1, digest=DIGEST), False),
        (PlanProposal, InlineId(name="plan_proposal", wrapped=False, digest=DIGEST), False),
        (Route, InlineId(name="Route", wrapped=False, digest=DIGEST), True),
        (Route, InlineId(name="Route", wrapped=True, digest=DIGEST), False),
        (Route, InlineId(name="Other", wrapped=False, digest=DIGEST), False),
        (str, TextId(digest=DIGEST), True),
        (str, InlineId(name="str", wrapped=False, digest=DIGEST), False),
    ],
)
def test_an_answer_is_recognized_by_its_contract_or_its_name(
    form: Any, schema: ContractId | InlineId | TextId, covered: bool
) -> None:
    assert of(form).covers(schema) is covered


def test_a_request_says_what_was_given_and_nothing_else() -> None:
    request = make_request(
        "Hi", "w", TextRef(), "new", {"facts": {"a": Route(team="x"), "b": [1]}, "request_id": None}
    )

    assert request == Request(
        request_id="new",
        workflow_id="w",
        answer_schema=TextRef(),
        context=Context(
            instructions="Hi",
            facts=(Fact(name="a", value={"team": "x"}), Fact(name="b", value=[1])),
        ),
    )


@pytest.mark.parametrize(
    "asking",
    [
        {"ttl_s": 0},
        {"request_id": "a b"},
        {"labels": {"a": "x" * 300}},
        {"budget": {"usd": 1}},
    ],
)
def test_what_the_wire_refuses_is_a_value_error(asking: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        make_request("Hi", "w", TextRef(), "new", asking)


def test_a_misspelt_option_is_an_error_as_with_any_function() -> None:
    misspelt: Any = {"budgt": Budget(attempts=1), "ttl_s": 60}

    with pytest.raises(TypeError, match="unexpected keyword argument: budgt"):
        make_request("Hi", "w", TextRef(), "new", misspelt)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_terminal_is_found_by_its_request_with_and_without_headers(path: Path) -> None:
    event = decode(path.read_bytes())
    assert not isinstance(event, Undecodable)
    terminal = event.kind in {"result", "unvalidated_result", "refusal", "dead_letter"}
    named = RequestKey(workflow_of(event) or "none", request_of(event) or "none")
    expected = event if terminal and "none" not in named else None

    for found in (record(event), record(event, headers=False)):
        assert outcome_in(found, {named}) == expected
        assert outcome_in(found, {named._replace(request_id="another")}) is None
        assert outcome_in(found, {named._replace(workflow_id="another")}) is None


@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=10))
def test_no_record_of_others_raises(value: bytes | None, header: bytes | None) -> None:
    found = record_of(value, [("ce_requestid", header), ("ce_contract", header)])

    assert outcome_in(found, {RequestKey("w", "mine")}) is None
    assert item_of(found, of(PlanProposal)) is None or header in (None, b"plan_proposal.v1")


def test_a_refusing_variant_is_a_refusal_whose_answer_is_kept() -> None:
    path = next(path for path in EXAMPLES if path.match("refusal/by_model.json"))
    event = decode(path.read_bytes())
    assert not isinstance(event, Undecodable)

    item = item_of(record(event), of(PlanProposal))

    assert item == event
    assert PLAN_PROPOSAL.adapter.validate_json(json.dumps(event.model_dump()["answer"])) == Refuse(
        kind="refuse", reason="out_of_scope", detail="The advisory has no fixed release."
    )


def test_a_new_id_is_a_uuid_of_version_7_that_keeps_its_moment() -> None:
    made = uuid7(0x0199E7A46C1F, bytes(range(10)))
    assert is_new(str(made), 0x0199E7A46C1F + 1_000)
    assert not is_new(str(made), 0x0199E7A46C1F + 60_000)
    assert not is_new(str(made), 0x0199E7A46C1F - 1)
    assert not is_new("ticket-1", 0x0199E7A46C1F)

    assert str(made) == "0199e7a4-6c1f-7001-8203-040506070809"
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_every_new_id_is_one(unix_ms: int, randomness: bytes) -> None:
    made = uuid7(unix_ms, randomness)

    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, unix_ms)


@given(st.integers(0, 2**47), st.integers(0, 2**47), st.binary(min_size=10, max_size=10))
def test_ids_sort_by_their_moment(one: int, other: int, randomness: bytes) -> None:
    first, second = sorted((one, other))
    if first != second:
        assert str(uuid7(first, randomness)) < str(uuid7(second, b"\0" * 10))


def test_too_little_chance_is_refused() -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        uuid7(0, b"123")
