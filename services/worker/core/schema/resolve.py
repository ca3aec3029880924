"""From a schema reference to the validator on it: a contract, an inline schema, or plain text."""

from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from answerbus import failure
from answerbus.answers.specialist import SPECIALIST, AskedSpecialist, noted, wrap
from answerbus.contract import Contract
from answerbus.dead_letter import UnknownSchema
from answerbus.fail_fast import JsonReader
from answerbus.failure import Problem
from answerbus.limits import RATIONALE_BYTES_MAX
from answerbus.problems import problems_of
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineId, InlineRef, SchemaRef, TextId, TextRef
from answerbus.wire import clip
from services.text.digest import canonical_digest
from services.worker.core.guard.effort import spend
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.embed import embedded
from services.worker.core.json_schema.keywords import AnySchema, JsonObject
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, Unusable
from services.worker.core.schema.tags import name_tags
from services.worker.core.schema.validator import SchemaValidator, compile_schema

CONTRACT_BYTE_NS = 500  # of reading an answer by its class: of a diff, or of many small values

_ASKED = JsonReader.of(AskedSpecialist)
OUTPUT_PLACE = "#/properties/output/anyOf/0"  # where `wrap` puts the caller's schema


def read_wrapped(validator: SchemaValidator, value: JsonValue) -> Accepted | failure.Invalid:
    """An answer is published with `success` true exactly if `output` is there and valid."""
    try:
        answer = _ASKED.validate_json(to_json(value), strict=True)
    except ValidationError as error:
        return failure.Invalid(problems=problems_of(error, value))
    if answer.success:
        problems = _output_problems(validator, answer)
        if problems:
            return failure.Invalid(problems=problems)
    return Accepted(answer.published().model_dump(mode="json"))


def add_notes(answer: JsonValue, own: tuple[str, ...]) -> JsonValue:
    """A published answer with the worker's own notes behind the model's."""
    notes = answer.get("notes") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(notes, list):
        return answer
    return answer | {"notes": [*noted(tuple(map(str, notes)), own)]}


def _output_problems(validator: SchemaValidator, answer: AskedSpecialist) -> tuple[Problem, ...]:
    if "output" not in answer.model_fields_set:
        expected = "the output, as `success` is true"
        return (Problem.of("/output", "missing", expected, found="nothing"),)
    return tuple(problem.under("/output") for problem in validator.problems(answer.output))


def resolve(ref: SchemaRef, registry: Registry) -> ResolvedSchema | Unusable:
    """The checker of answers to `ref`; or why it cannot be asked for."""
    match ref:
        case ContractRef():
            contract = registry.find(ref)
            if contract is None:
                return Unusable(UnknownSchema())
            return _specialist() if contract is SPECIALIST else _contract(contract)
        case InlineRef():
            return _inline(ref)
        case TextRef():
            return _TEXT
        case _:
            assert_never(ref)


def _contract(contract: Contract[Any]) -> ResolvedSchema:
    return ResolvedSchema(
        id=contract.id,
        name=contract.name,
        description=contract.summary,
        schema=contract.asked_schema(),
        read=partial(_read_contract, contract),
        audit_only=contract.audit_only,
        from_text=partial(_from_text, contract) if contract.from_text else None,
        from_loose=contract.from_loose,
        read_published=partial(_read_published, contract),
    )


def _read_contract(contract: Contract[Any], value: JsonValue) -> Accepted | failure.Invalid:
    """Validated as the JSON it was: in JSON, strict types still take times and tuples as texts."""
    text = to_json(value)
    spend(len(text) * CONTRACT_BYTE_NS)
    try:
        read = contract.asked_reader.validate_json(text, strict=True)
        whole = contract.asked_adapter.dump_python(read, mode="json")
        answer = _without(whole, contract.audit_only)
        published = contract.reader.validate_json(to_json(answer), strict=True)
    except ValidationError as error:
        problems = name_tags(problems_of(error, value), Document(contract.asked_schema()), value)
        return failure.Invalid(problems=problems)
    return Accepted(
        answer=answer,
        declined=contract.declines(published),
        rationale=_rationale(whole, contract.audit_only),
    )


def _read_published(contract: Contract[Any], answer: JsonValue) -> Accepted | failure.Invalid:
    try:
        published = contract.reader.validate_json(to_json(answer), strict=True)
    except ValidationError as error:
        return failure.Invalid(problems=problems_of(error, answer))
    return Accepted(answer, declined=contract.declines(published))


def _from_text(contract: Contract[Any], text: str) -> Accepted | failure.Invalid:
    return _read_published(contract, contract.from_text(text) if contract.from_text else text)


def _without(answer: JsonValue, audit_only: frozenset[str]) -> JsonValue:
    """The answer without audit-only fields of a variant, or of each variant in a list of them."""
    match answer:
        case dict():
            return {name: member for name, member in answer.items() if name not in audit_only}
        case list():
            return [_without(item, audit_only) for item in answer]
        case _:
            return answer


def _rationale(answer: JsonValue, audit_only: frozenset[str]) -> str | None:
    variants = answer if isinstance(answer, list) else [answer]
    texts = [
        member
        for variant in variants
        if isinstance(variant, dict)
        for name, member in variant.items()
        if name in audit_only and isinstance(member, str)
    ]
    return clip("\n".join(texts), RATIONALE_BYTES_MAX) if texts else None


def _specialist() -> ResolvedSchema | Unusable:
    """The wrapper round any value but null, which would be no answer."""
    authority = compile_schema({"not": {"type": "null"}})
    if not isinstance(authority, SchemaValidator):
        return Unusable(authority)
    return ResolvedSchema(
        id=SPECIALIST.id,
        name=SPECIALIST.name,
        description=SPECIALIST.summary,
        schema=SPECIALIST.asked_schema(),
        read=partial(read_wrapped, authority),
        add_notes=add_notes,
    )


def _inline(ref: InlineRef) -> ResolvedSchema | Unusable:
    authority = compile_schema(ref.json_schema)
    if not isinstance(authority, SchemaValidator):
        return Unusable(authority)
    bare = ResolvedSchema(
        id=InlineId(name=ref.name, wrapped=ref.wrapped, digest=canonical_digest(ref.json_schema)),
        name=ref.name,
        description=ref.description,
        schema=_as_object(authority.document.root),
        read=partial(_read_inline, authority),
        pattern_bytes=authority.pattern_bytes,
    )
    if not ref.wrapped:
        return bare
    return replace(
        bare,
        schema=_wrapped_schema(authority.document),
        read=partial(read_wrapped, authority),
        add_notes=add_notes,
    )


def _read_inline(validator: SchemaValidator, value: JsonValue) -> Accepted | failure.Invalid:
    problems = validator.problems(value)
    return failure.Invalid(problems=problems) if problems else Accepted(value)


def _wrapped_schema(document: Document) -> JsonObject:
    inner = embedded(document, OUTPUT_PLACE)
    # The whole is read by the rules of the draft that the caller's part is written in.
    declared = _as_object(document.root).get("$schema")
    draft: JsonObject = {} if declared is None else {"$schema": declared}
    return draft | wrap(inner)


def _as_object(schema: AnySchema) -> JsonObject:
    """`true` says the same as the empty object; `false` is refused before."""
    return schema if isinstance(schema, dict) else {}


def _read_text(value: JsonValue) -> Accepted | failure.Invalid:
    if isinstance(value, str):
        return Accepted(value)
    return failure.Invalid(problems=(Problem.of("", "type", "a text"),))


_TEXT = ResolvedSchema(
    id=TextId(digest=canonical_digest({"type": "string"})),
    name="text",
    description="",
    schema=None,
    read=_read_text,
)
