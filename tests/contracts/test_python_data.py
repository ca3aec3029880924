"""Parsed JSON is read as its text is: what FastAPI and FastStream validate are Python objects."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import AnyUrl, Field, JsonValue, TypeAdapter, ValidationError

from answerbus.agent import AgentRef
from answerbus.answers.plan_proposal import PlanProposal
from answerbus.budget import Budget
from answerbus.contract import Closed
from answerbus.event import EVENT
from answerbus.outcome import Result
from answerbus.registry import Registry
from answerbus.request import Context, Fact, InlineRef, Message, Policy, Request, TextRef
from answerbus.wire import Timestamp, Wire

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
PATHS = sorted(EXAMPLES.rglob("*.json"))
ANSWERS = {contract.name: contract.answer for contract in Registry()}


class Colour(Enum):
    RED = "red"


class Rich(Closed):
    """A plugin's own class, with all that JSON has no type for."""

    names: tuple[str, ...]
    pair: tuple[int, str]
    seen: frozenset[str]
    days: list[date]
    at: datetime
    id: UUID
    price: Decimal
    colour: Colour
    link: AnyUrl
    nested: "Rich | None" = None
    by_name: dict[str, tuple[date, ...]] = {}


class Moment(Wire):
    at: Timestamp
    counts: Annotated[tuple[int, ...], Field(max_length=2)] = ()


RICH: dict[str, Any] = {
    "names": ["a"],
    "pair": [1, "x"],
    "seen": ["s"],
    "days": ["2026-11-22"],
    "at": "2026-11-22T10:00:00Z",
    "id": "0199e7a4-0000-7000-8000-000000000000",
    "price": "1.50",
    "colour": "red",
    "link": "https://example.org/",
    "by_name": {"a": ["2026-11-22"]},
}


@pytest.mark.parametrize("path", PATHS, ids=lambda p: str(p.relative_to(EXAMPLES)))
def test_an_event_is_read_alike_from_text_and_from_objects(path: Path) -> None:
    text = path.read_text("utf-8")
    adapter: TypeAdapter[Any] = EVENT
    event = adapter.validate_json(text)

    assert adapter.validate_python(json.loads(text)) == event


@pytest.mark.parametrize("path", sorted((EXAMPLES / "result").glob("*.json")), ids=lambda p: p.stem)
def test_a_typed_result_is_read_from_objects(path: Path) -> None:
    value = json.loads(path.read_text("utf-8"))
    answer: Any = ANSWERS.get(value["schema"].get("name"), JsonValue)
    typed: Any = Result[answer]

    assert typed.model_validate(value) == typed.model_validate_json(json.dumps(value))


def test_a_class_of_ones_own_is_read_from_objects() -> None:
    value = {**RICH, "nested": RICH}

    assert Rich.model_validate(value) == Rich.model_validate_json(json.dumps(value))
    assert Rich.model_validate(Rich.model_validate(value).model_dump()).names == ("a",)


@pytest.mark.parametrize(
    "change",
    [
        {"names": "ab"},
        {"names": [1]},
        {"pair": ["1", "x"]},
        {"pair": [True, "x"]},
        {"at": 1795341600},
        {"days": [20000]},
        {"price": 1.5j},
        {"id": 7},
        {"colour": "blue"},
        {"nested": {**RICH, "pair": [1.0, "x"]}},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_text_may_not_say_objects_may_not_either(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Rich.model_validate({**RICH, **change})


@pytest.mark.parametrize(
    "value", [{"at": 0}, {"at": "x"}, {"at": "2026-11-22T10:00:00Z", "counts": [1.0]}]
)
def test_scalars_of_events_stay_strict(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Moment.model_validate(value)
    with pytest.raises(ValidationError):
        Moment.model_validate_json(json.dumps(value))


def test_python_objects_are_taken_as_before() -> None:
    at = datetime(2026, 11, 22, 10, tzinfo=UTC)

    assert Moment(at=at, counts=(1, 2)).at == at


def test_a_class_that_is_used_often_is_changed_once() -> None:
    sizes = {len(repr(TypeAdapter(list[Result[PlanProposal]]).core_schema)) for _ in range(5)}

    assert len(sizes) == 1


REQUEST: dict[str, Any] = {
    "request_id": "r-1",
    "workflow_id": "w-1",
    "answer_schema": {"kind": "text"},
    "context": {"instructions": "Hi"},
}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (Budget, {"usd": 1}),
        (Policy, {"at_least": "text"}),
        (Context, {"instructions": "Hi", "fact": ()}),
        (Fact, {"name": "a", "value": 1, "trusted": True}),
        (Message, {"role": "user", "content": "Hi", "name": "ann"}),
        (AgentRef, {"name": "support", "tool": ()}),
        (InlineRef, {"name": "n", "json_schema": True, "wrap": False}),
        (Request, {**REQUEST, "ttl": 60}),
        (Request, {**REQUEST, "budget": {"usd": 1}}),
    ],
)
def test_an_unknown_member_is_a_mistake_where_a_program_writes_and_ignored_where_it_reads(
    asked: type[Wire], given: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        asked(**given)

    found = asked.model_validate(given)
    assert found == asked.model_validate_json(json.dumps(given))
    assert found == TypeAdapter(list[asked]).validate_python([given])[0]  # type: ignore[valid-type]


def test_a_schema_of_any_members_is_data() -> None:
    schema = InlineRef(name="n", json_schema={"type": "object", "x-own": {"usd": 1}})

    asked = Request(**{**REQUEST, "answer_schema": schema, "labels": {"usd": "1"}})

    assert asked.answer_schema == schema
    assert Request(**REQUEST).answer_schema == TextRef()
