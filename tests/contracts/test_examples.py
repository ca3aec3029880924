"""Every event has examples, every example is one, and no case of the contract is without."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import rfc8785
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from answerbus.answers.specialist import Specialist
from answerbus.attempt import Attempt
from answerbus.contract import Closed
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import ReceivedRequest, Undecodable, decode, decode_request
from answerbus.event import Event, event_id, request_of
from answerbus.limits import REQUEST_BYTES_MAX
from answerbus.outcome import Refusal, Result
from answerbus.registry import Registry
from answerbus.request import ContractId, ContractRef, InlineId, Request, TextId
from answerbus.schema_export import event_models
from answerbus.wire import Wire

CONTRACTS = Path(__file__).parents[2] / "contracts"
EXAMPLES = sorted((CONTRACTS / "examples").rglob("*.json"))
GENERIC = {"Wire", "RequestPart", "_Answered", "Result"}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


examples = pytest.mark.parametrize("path", EXAMPLES, ids=name_of)


def read(path: Path) -> Event:
    event = decode(path.read_bytes())
    assert not isinstance(event, Undecodable), event.problems
    return event


@cache
def events() -> tuple[tuple[str, Event], ...]:
    return tuple((name_of(path), read(path)) for path in EXAMPLES)


@cache
def validator(kind: str) -> Draft202012Validator:
    """By the schema alone: whether it is one, test_schemas.py asks."""
    path = CONTRACTS / f"schemas/events/{kind}.v1.json"
    return Draft202012Validator(json.loads(path.read_bytes()))


def results() -> list[Result[Any]]:
    return [event for _, event in events() if isinstance(event, Result)]


@examples
def test_an_example_is_of_its_kind_valid_and_written_as_it_was_read(path: Path) -> None:
    """What we write has every field; a request may leave out what has a default."""
    event, written = read(path), json.loads(path.read_bytes())

    assert event.kind == path.parent.name
    assert list(validator(event.kind).iter_errors(written)) == []
    assert event.model_dump(mode="json", exclude_unset=isinstance(event, Request)) == written


def test_every_kind_of_event_has_an_example() -> None:
    assert {path.parent.name for path in EXAMPLES} == set(event_models())


def test_no_file_is_an_orphan() -> None:
    files = {path for path in (CONTRACTS / "examples").rglob("*") if path.is_file()}

    assert files == set(EXAMPLES)


def test_requests_have_a_minimal_and_a_full_example() -> None:
    """The minimal one has the required fields alone, the full one each that upstream may set."""
    fields = {
        path.stem: set(json.loads(path.read_bytes()))
        for path in EXAMPLES
        if path.parent.name == "request"
    }

    required = {name for name, field in Request.model_fields.items() if field.is_required()}
    assert fields["minimal"] == required | {"kind"}
    assert fields["full"] == set(Request.model_fields) - {"resumed"}, "that is of replays alone"


def parts(value: object) -> Iterator[BaseModel]:
    """All models in a value."""
    if isinstance(value, BaseModel):
        yield value
        value = tuple(inner for _, inner in value)
    if isinstance(value, tuple):
        for inner in value:
            yield from parts(inner)


def wire_classes() -> set[type[BaseModel]]:
    """All classes of objects on the wire, of all modules that events are made of."""
    modules = [module for name, module in sys.modules.items() if name.startswith("answerbus.")]
    return {
        found
        for module in modules
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Wire) and found.__name__ not in GENERIC and "[" not in found.__name__
        if not found.__module__.startswith(("answerbus.answers", "answerbus.cassette"))
    }


def test_every_class_on_the_wire_occurs_in_an_example() -> None:
    """So each failure, cause and kind of schema has one: they are classes of closed unions."""
    seen = {type(part) for _, event in events() for part in parts(event)}

    assert {found.__name__ for found in wire_classes() - seen} == set()


def choices(form: object) -> set[object]:
    if get_origin(form) is Literal:
        return set(get_args(form))
    return {choice for part in get_args(form) for choice in choices(part)}


def test_every_choice_of_every_field_occurs_in_an_example() -> None:
    """Each outcome of an attempt, each policy, each operation of a patch, each `which`."""
    seen = {
        (type(part).__name__.partition("[")[0], name, value)
        for _, event in events()
        for part in parts(event)
        for name, value in part
        if isinstance(value, str | int)
    }
    wanted = {
        (found.__name__, name, choice)
        for found in wire_classes()
        for name, field in found.model_fields.items()
        for choice in choices(field.annotation)
    }

    assert {case for case in wanted if case not in seen} == set()
    assert len(wanted) > 60


def test_results_show_every_kind_of_answer() -> None:
    schemas = {type(result.answered_schema) for result in results()}
    wrapped = {
        result.answered_schema.wrapped
        for result in results()
        if isinstance(result.answered_schema, InlineId)
    }

    assert schemas == {ContractId, InlineId, TextId}
    assert wrapped == {True, False}


def test_wrapped_answers_are_what_the_wrapper_says() -> None:
    """`success` exactly if there is an output, a reason exactly if there is none."""
    answers = [
        Specialist.model_validate_json(json.dumps(result.answer))
        for result in results()
        if isinstance(result.answered_schema, InlineId) and result.answered_schema.wrapped
    ]

    assert {answer.success for answer in answers} == {True, False}
    for answer in answers:
        assert answer.success == (answer.output is not None) == (answer.failure_reason is None)


def answers_by_contract() -> Mapping[str, list[BaseModel]]:
    """The answers of all examples as instances of their contracts' types."""
    found: dict[str, list[BaseModel]] = {contract.name: [] for contract in Registry()}
    for _, event in events():
        if isinstance(event, Result | Refusal) and isinstance(event.answered_schema, ContractId):
            contract = Registry().find(
                ContractRef(**event.answered_schema.model_dump(exclude={"digest"}))
            )
            assert contract is not None
            assert event.answered_schema == contract.id, "the schema as it is now"
            if event.answer is not None:
                answer = contract.adapter.validate_json(json.dumps(event.answer), strict=True)
                found[contract.name].append(answer)
                assert contract.adapter.dump_python(answer, mode="json") == event.answer
                Draft202012Validator(contract.schema()).validate(event.answer)
    return found


def test_answers_of_contracts_are_valid_and_every_variant_of_each_occurs() -> None:
    """Variants are all classes of answers in the modules of the contracts."""
    modules = [module for name, module in sys.modules.items() if ".answers." in name]
    variants = {
        found.__name__
        for module in modules
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Closed) and found is not Closed and "Asked" not in found.__name__
    }
    seen = {
        type(part).__name__
        for answers in answers_by_contract().values()
        for answer in answers
        for part in parts(answer)
    }

    assert all(answers_by_contract().values())
    assert {name.partition("[")[0] for name in seen} == {
        name.partition("[")[0] for name in variants
    }
    assert len(variants) > 12


def test_the_attempts_are_one_chain() -> None:
    chain = sorted(
        (event for _, event in events() if isinstance(event, Attempt)),
        key=lambda attempt: attempt.attempt,
    )

    hashes = [
        "sha256:"
        + hashlib.sha256(rfc8785.dumps(event.model_dump(mode="json", exclude={"hash"}))).hexdigest()
        for event in chain
    ]
    assert [event.hash for event in chain] == hashes
    assert [event.previous for event in chain] == [None, *hashes[:-1]]


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path.parent.name == "request"], ids=name_of
)
def test_a_request_is_taken_without_headers_and_without_remarks(path: Path) -> None:
    received = decode_request(path.read_bytes())

    assert isinstance(received, ReceivedRequest)
    assert received.unknown_fields == ()
    assert len(path.read_bytes()) < REQUEST_BYTES_MAX


def test_event_ids_are_derived_from_the_request() -> None:
    """As the wire format says: `.result`, `.refusal`, `.dead-letter`, `.retry.2`, `.attempt.2`."""
    endings: Mapping[str, str] = {
        "result": ".result",
        "unvalidated_result": ".result",
        "refusal": ".refusal",
        "retry_request": ".retry.2",
        "attempt": ".attempt.",
    }
    for name, event in events():
        if ending := endings.get(event.kind):
            assert event_id(event).startswith(f"{request_of(event)}{ending}"), name


def test_dead_letters_about_records_have_raw_bytes_and_those_about_requests_the_request() -> None:
    for name, event in events():
        if isinstance(event, DeadLetter):
            about_record = event.cause.kind in {
                "undecodable",
                "conflicting_id",
                "misrouted_twice",
                "request_too_large",
            }
            origin = event.origin
            place = f"{origin.topic}-{origin.partition}-{origin.offset}"
            owner = place if about_record else event.request_id

            assert (event.raw is not None) is about_record, name
            assert (event.request is None) is about_record, name
            assert (event.account is None) is about_record, name
            assert event.dead_letter_id == f"{owner}.dead-letter", name
