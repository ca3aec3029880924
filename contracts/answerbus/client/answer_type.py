"""Maps a Python type to a request's schema, and a published answer back to that type."""

import logging
import re
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypeForm

from answerbus.answers.specialist import SPECIALIST, Specialist
from answerbus.client.closed_schema import ClosedSchema
from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.fail_fast import JsonReader
from answerbus.failure import Problem
from answerbus.limits import NAME_CHARS_MAX, NOTES_MAX, REASON_BYTES_MAX
from answerbus.outcome import AnyResult, Refusal, Result, UnvalidatedResult
from answerbus.problems import problems_of
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, SchemaId, SchemaRef, TextRef
from answerbus.schema_name import schema_name
from answerbus.wire import clip

_log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")
TypedOutcome = Result[AnswerT] | UnvalidatedResult | Refusal | DeadLetter

TYPE_DISAGREES = "the answer fits its schema, but breaks a rule of the type that reads it"
VALIDATOR_FAILED = "validator_failed"
KEPT_MAX = 256  # types whose schemas and readers a process keeps: they take up to 2 ms to make
_ANY_JSON: JsonReader[Any] = JsonReader(TypeAdapter(JsonValue))
_kept: dict[tuple[int, int], tuple[object, Registry, "AnswerType[Any]"]] = {}
_IDENTITY = {"kind", "name", "version", "wrapped"}


@dataclass(frozen=True)
class AnswerType(Generic[AnswerT]):
    """One type of answers: the schema to ask for, and the reader of what comes back."""

    ref: SchemaRef
    reader: JsonReader[AnswerT]

    @classmethod
    def of(cls, form: TypeForm[AnswerT], registry: Registry) -> "AnswerType[AnswerT]":
        """What a contract's published type, `str` (plain text) or any other type stands for.

        Any other type is asked for by its JSON Schema, unwrapped; `Specialist[T]` by the schema of
        T, wrapped; a SchemaRef for itself, with JSON as its answers. Raises pydantic's errors for a
        type that has none, and TypeError for None.
        """
        if form is None:
            raise TypeError("`response_model` is a type, and not None: leave it out for plain text")
        if isinstance(form, ContractRef | InlineRef | TextRef):
            return cls(form, _ANY_JSON)
        key = id(form), id(registry)
        kept = _kept.get(key)
        if kept is None:
            if len(_kept) >= KEPT_MAX:
                _kept.clear()
            # With the objects themselves, so that no others get their ids.
            kept = _kept[key] = form, registry, cls._made(form, registry)
        return kept[2]

    @classmethod
    def _made(cls, form: TypeForm[AnswerT], registry: Registry) -> "AnswerType[AnswerT]":
        adapter: TypeAdapter[AnswerT] = TypeAdapter(form)
        for contract in registry:
            if form in (contract.answer, contract.result):
                return cls(contract.ref, JsonReader(adapter))
        if form is Specialist:
            return cls(SPECIALIST.ref, JsonReader(adapter))
        ref = TextRef() if form is str else _inline(form, adapter)
        return cls(ref, JsonReader(adapter))

    @property
    def contract_header(self) -> bytes:
        """The value of the header `ce_contract` on answers of this type."""
        return schema_name(self.ref).header.encode()

    def covers(self, schema: SchemaId | SchemaRef) -> bool:
        """Whether `schema` asks for answers of this type; inline schemas go by their name."""
        return schema.model_dump(include=_IDENTITY) == self.ref.model_dump(include=_IDENTITY)

    def typed(self, result: AnyResult) -> Result[AnswerT] | UnvalidatedResult:
        """The result with its answer as an instance of the type.

        A type may be stricter than its JSON Schema can say, and a worker may know a newer version
        of it: an answer that the type refuses becomes an UnvalidatedResult. So does one at which a
        validator of the type raises another error: a subscription would get it again and again.
        """
        # Readers of contracts ignore fields that are newer than they; other types have own rules.
        extra: Literal["ignore"] | None = "ignore" if isinstance(self.ref, ContractRef) else None
        try:
            answer = self.reader.validate_json(to_json(result.answer), extra=extra)
        except ValidationError as error:
            return _unvalidated(result, problems_of(error, result.answer))
        except Exception as error:  # of the type's author
            _log.exception("A validator failed at the answer of request %s.", result.request_id)
            expected = f"no error in a validator: {type(error).__name__}"
            return _unvalidated(result, (Problem.of("", VALIDATOR_FAILED, expected),))
        return result.model_copy(update={"answer": answer})

    def typed_outcome(self, outcome: AnyOutcome) -> "TypedOutcome[AnswerT]":
        """An outcome with its answer, if it has one, as `typed` gives it."""
        return self.typed(outcome) if isinstance(outcome, Result) else outcome


def _unvalidated(result: AnyResult, problems: tuple[Problem, ...]) -> UnvalidatedResult:
    shared: dict[str, Any] = {
        name: value for name, value in result if name not in {"kind", "answer", "notes"}
    }
    return UnvalidatedResult(
        **shared,
        unvalidated_answer=result.answer,
        problems=problems,
        notes=(*result.notes[: NOTES_MAX - 1], TYPE_DISAGREES),
    )


def _output_of(form: type[Specialist[Any]]) -> Any:
    """The T of Specialist[T], or of a class that is derived from it."""
    bases = (getattr(base, "__pydantic_generic_metadata__", {}) for base in form.__mro__)
    return next((found["args"][0] for found in bases if found.get("args")), JsonValue)


def _inline(form: Any, adapter: TypeAdapter[Any]) -> InlineRef:
    wrapped = isinstance(form, type) and issubclass(form, Specialist)
    if wrapped:
        adapter = TypeAdapter(_output_of(form))
    schema = adapter.json_schema(schema_generator=ClosedSchema)
    title = re.sub(r"[^A-Za-z0-9_]+", "_", schema.get("title", "")).strip("_")
    return InlineRef(
        name=title[:NAME_CHARS_MAX] or "answer",
        description=clip(schema.get("description", ""), REASON_BYTES_MAX),
        wrapped=wrapped,
        json_schema=schema,
    )
