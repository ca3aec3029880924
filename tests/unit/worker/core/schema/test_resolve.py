"""A schema reference resolves to an authority that publishes exactly what it promises."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.answers.specialist import DROPPED_OUTPUT
from answerbus.contract import Contract, Declined
from answerbus.dead_letter import HostileSchema, UnknownSchema
from answerbus.failure import Invalid
from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX, RATIONALE_BYTES_MAX, REASON_BYTES_MAX
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineId, InlineRef, SchemaRef, TextId, TextRef
from services.text.digest import canonical_digest
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, AcceptedStep, ResolvedSchema, Unusable
from tests.oracle import is_valid

LIST: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://example.org/list",
    "$ref": "#/definitions/node",
    "definitions": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/definitions/node"}},
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Meet(_Strict):
    """Agree on a time."""

    kind: Literal["meet"]
    at: AwareDatetime
    places: tuple[str, ...] = ()


class Decline(_Strict):
    """Say no."""

    kind: Literal["decline"]
    why: Annotated[str, Field(max_length=5000)]


class AskedMeet(Meet):
    """Agree on a time, and say why."""

    rationale: str


class AskedDecline(Decline):
    """Say no, and say why."""

    rationale: str


AskedAnswer = Annotated[AskedMeet | AskedDecline, Field(discriminator="kind")]
Answer = Annotated[Meet | Decline, Field(discriminator="kind")]
MEETING: Contract[Any] = Contract(
    name="meeting",
    version=2,
    answer=Answer,
    asked=AskedAnswer,
    summary="When to meet.",
    audit_only=frozenset({"rationale"}),
    declines=lambda answer: Declined(answer.why, "busy") if type(answer) is Decline else None,
)
REGISTRY = Registry([MEETING, PLAN_PROPOSAL])


def resolved(ref: SchemaRef) -> ResolvedSchema:
    asked = resolve(ref, REGISTRY)
    assert isinstance(asked, ResolvedSchema), asked
    return asked


def inline(schema: Any, *, wrapped: bool) -> ResolvedSchema:
    return resolved(
        InlineRef(name="mine", description="A thing.", wrapped=wrapped, json_schema=schema)
    )


def codes(read: Accepted | AcceptedStep | Invalid) -> list[tuple[str, str]]:
    assert isinstance(read, Invalid), read
    return [(problem.path, problem.code) for problem in read.problems]


def test_a_contract_is_asked_with_its_audit_fields_and_published_without() -> None:
    asked = resolved(MEETING.ref)
    answer: dict[str, JsonValue] = {
        "kind": "meet",
        "at": "2026-11-21T10:00:00Z",
        "places": ["here"],
    }

    assert (asked.id, asked.name, asked.schema) == (MEETING.id, "meeting", MEETING.asked_schema())
    assert asked.audit_only == {"rationale"}
    assert asked.read(answer | {"rationale": "r" * 9000}) == Accepted(
        answer, rationale="r" * (RATIONALE_BYTES_MAX - 3) + "…"
    )


def test_a_refusing_variant_is_recognised() -> None:
    answer: JsonValue = {"kind": "decline", "why": "away", "rationale": "calendar"}

    assert resolved(MEETING.ref).read(answer) == Accepted(
        {"kind": "decline", "why": "away"}, declined=Declined("away", "busy"), rationale="calendar"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"kind": "meet", "at": "2026-11-21T10:00:00Z"}, [("/rationale", "missing")]),
        ({"kind": "meet", "at": 5, "rationale": ""}, [("/at", "datetime_type")]),
        ({"kind": "meat", "rationale": ""}, [("", "union_tag_invalid")]),
        ({"kind": "decline", "why": 1, "rationale": ""}, [("/why", "string_type")]),
        ([], [("", "dict_type")]),
        (None, [("", "dict_type")]),
    ],
)
def test_what_breaks_a_contract_is_invalid(
    answer: JsonValue, expected: list[tuple[str, str]]
) -> None:
    assert codes(resolved(MEETING.ref).read(answer)) == expected


def test_what_the_published_type_refuses_is_invalid_although_the_asked_type_took_it() -> None:
    class Loose(_Strict):
        n: int

    class Tight(_Strict):
        n: Annotated[int, Field(le=3)]

    contract: Contract[Any] = Contract("tight", 1, Tight, Loose, "A small number.")
    asked = resolve(contract.ref, Registry([contract]))

    assert isinstance(asked, ResolvedSchema)
    assert asked.read({"n": 3}) == Accepted({"n": 3})
    assert codes(asked.read({"n": 4})) == [("/n", "less_than_equal")]


def test_audit_fields_are_taken_out_of_each_variant_of_a_list() -> None:
    contract: Contract[Any] = Contract(
        name="meetings",
        version=1,
        answer=tuple[Answer, ...],
        asked=tuple[AskedAnswer, ...],
        summary="Some meetings.",
        audit_only=frozenset({"rationale"}),
    )
    asked = resolve(contract.ref, Registry([contract]))
    answers: list[JsonValue] = [{"kind": "decline", "why": why, "rationale": why} for why in "ab"]

    assert isinstance(asked, ResolvedSchema)
    assert asked.read(answers) == Accepted(
        [{"kind": "decline", "why": "a"}, {"kind": "decline", "why": "b"}], rationale="a\nb"
    )


def test_text_is_any_text() -> None:
    asked = resolved(TextRef())

    assert asked.id == TextId(digest=canonical_digest({"type": "string"}))
    assert asked.schema is None
    assert asked.read("{not json") == Accepted("{not json")
    assert codes(asked.read(5)) == [("", "type")]


@pytest.mark.parametrize(
    ("ref", "cause"),
    [
        (ContractRef(name="meeting", version=1), UnknownSchema),
        (InlineRef(name="x", json_schema=False), HostileSchema),
        (InlineRef(name="x", json_schema={"$ref": "file:///etc/passwd"}), HostileSchema),
        (InlineRef(name="x", json_schema={"type": "strin"}, wrapped=False), HostileSchema),
    ],
)
def test_what_cannot_be_asked_for_is_unusable(ref: SchemaRef, cause: type) -> None:
    unusable = resolve(ref, REGISTRY)

    assert isinstance(unusable, Unusable)
    assert type(unusable.cause) is cause


def test_an_unwrapped_answer_is_the_bare_value() -> None:
    asked = inline(LIST, wrapped=False)

    assert asked.id == InlineId(name="mine", wrapped=False, digest=canonical_digest(LIST))
    assert asked.schema == LIST
    assert asked.read({"v": 1, "next": {"v": 2}}) == Accepted({"v": 1, "next": {"v": 2}})
    assert codes(asked.read({"v": 1, "next": {}})) == [("/next", "required")]


def wrapped(output: JsonValue = None, **members: JsonValue) -> JsonValue:
    whole = {"success": True, "output": output, "notes": [], "failure_reason": None}
    return whole | members


@pytest.mark.parametrize(
    ("answer", "published"),
    [
        (wrapped({"v": 1}), wrapped({"v": 1})),
        (wrapped({"v": 1}, failure_reason="n/a"), wrapped({"v": 1})),
        ({"success": True, "output": {"v": 1}}, wrapped({"v": 1})),
        (
            wrapped(None, success=False, failure_reason="not found"),
            wrapped(None, success=False, failure_reason="not found"),
        ),
        (
            wrapped(None, success=False, failure_reason="x" * 9000),
            wrapped(None, success=False, failure_reason="x" * (REASON_BYTES_MAX - 3) + "…"),
        ),
        (
            wrapped({"v": 1}, notes=["n" * 9000] * 99),
            wrapped({"v": 1}, notes=["n" * (NOTE_BYTES_MAX - 3) + "…"] * NOTES_MAX),
        ),
    ],
)
def test_a_wrapped_answer_is_published_as_promised(answer: JsonValue, published: JsonValue) -> None:
    assert inline(LIST, wrapped=True).read(answer) == Accepted(published)


def test_an_output_beside_a_reported_failure_is_dropped_and_noted() -> None:
    read = inline(LIST, wrapped=True).read(wrapped({"v": 1}, success=False, failure_reason="no"))

    assert read == Accepted(
        wrapped(None, success=False, failure_reason="no", notes=[DROPPED_OUTPUT])
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (wrapped({"v": "1"}), [("/output/v", "type")]),
        (wrapped(None), [("/output", "type")]),
        ({"success": True}, [("/output", "missing")]),
        (wrapped(None, success=False), [("", "failure_reason_missing")]),
        (wrapped(None, success=False, failure_reason=" "), [("", "failure_reason_missing")]),
        (wrapped({"v": 1}, success="true"), [("/success", "bool_type")]),
        (wrapped({"v": 1}, extra=1), [("/extra", "extra_forbidden")]),
        ({"v": 1}, [("/success", "missing"), ("/v", "extra_forbidden")]),
        ([], [("", "model_type")]),
    ],
)
def test_what_is_no_wrapped_answer_is_invalid(
    answer: JsonValue, expected: list[tuple[str, str]]
) -> None:
    assert codes(inline(LIST, wrapped=True).read(answer)) == expected


def test_null_is_an_output_where_the_schema_says_so() -> None:
    assert inline({"type": "null"}, wrapped=True).read(wrapped(None)) == Accepted(wrapped(None))
    assert inline(True, wrapped=True).read(wrapped([1])) == Accepted(wrapped([1]))


@pytest.mark.parametrize(
    "schema",
    [
        LIST,
        {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}}
        | {"required": ["v"], "additionalProperties": False},
        {"$ref": "#/elsewhere/node", "elsewhere": LIST["definitions"]}
        | {"definitions": LIST["definitions"]},
    ],
)
def test_references_keep_their_meaning_inside_the_wrapper(schema: Any) -> None:
    asked = inline(schema, wrapped=True)
    good: JsonValue = {"v": 1, "next": {"v": 2, "next": {"v": 3}}}
    bad: JsonValue = {"v": 1, "next": {"v": 2, "next": {"v": "3"}}}

    assert asked.schema is not None
    assert is_valid(asked.schema, wrapped(good))
    assert not is_valid(asked.schema, wrapped(bad))
    assert asked.schema.get("$schema") == schema.get("$schema")
    assert "example.org" not in repr(asked.schema)


def test_a_property_called_ref_is_no_reference_inside_the_wrapper() -> None:
    schema: Any = {"properties": {"$ref": {"const": "#/x"}}, "required": ["$ref"]}
    asked = inline(schema, wrapped=True)

    assert is_valid(asked.schema, wrapped({"$ref": "#/x"}))
    assert not is_valid(asked.schema, wrapped({"$ref": "#/y"}))
