"""The outcomes that a test can prepare, as a worker would publish them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from answerbus.answers.specialist import Specialist
from answerbus.budget import AccountState, Usage
from answerbus.client.errors import BusUnavailable
from answerbus.client.published_record import PublishedRecord
from answerbus.client.testing.errors import FakeClientError
from answerbus.contract import Contract, digest_of
from answerbus.dead_letter import Cause, DeadLetter, dead_letter_id
from answerbus.envelope import encode
from answerbus.event import AnyOutcome
from answerbus.failure import Problem
from answerbus.outcome import ModelUsed, Origin, Refusal, Result, UnvalidatedResult
from answerbus.problems import pointer, problems_of
from answerbus.request import (
    ContractRef,
    InlineId,
    InlineRef,
    Request,
    SchemaId,
    SchemaRef,
    TextId,
    TextRef,
)

if TYPE_CHECKING:
    import jsonschema_rs

_FAKE = "fake"
_SHOWN_MAX = 5  # problems of a prepared answer
_WRAPPED: TypeAdapter[Any] = TypeAdapter(Specialist[JsonValue])
_UNCHECKED = (
    "FakeClient does not check answers to a JSON Schema or a class of your own without "
    "jsonschema-rs: install answerbus with its extra `testing`"
)


class UnfitAnswer(FakeClientError):
    """An answer that no worker would publish; `why` goes on after a subject."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The prepared answer {why}. No worker publishes it; `unvalidated` and `dead_letter` "
            "say how such requests end."
        )
        self.why = why


@dataclass(frozen=True)
class Asked:
    """A request as a worker sees it: where it stood, its contract if it has one, its account."""

    request: Request
    origin: Origin
    contract: Contract[Any] | None
    account: AccountState
    now: datetime


Reply: TypeAlias = Callable[[Asked], AnyOutcome | None]
"""How a request ends; None: not so far. A test may write its own."""


def answered(answer: object) -> Reply:
    """A Result with this answer; a contract's refusing variant becomes a Refusal, as on the bus."""

    def reply(asked: Asked) -> AnyOutcome:
        contract = asked.contract
        value = fitting(asked.request.answer_schema, contract, from_json(to_json(answer)))
        declined = contract and contract.declines(contract.adapter.validate_json(to_json(value)))
        if declined:
            return _refusal(asked, "model", declined.reason, declined.category, value)
        event_id = f"{asked.request.request_id}.result"
        return Result[JsonValue](event_id=event_id, answer=value, **_about(asked))

    return reply


def unvalidated(answer: object, *problems: Problem) -> Reply:
    """An UnvalidatedResult, as a policy with `at_last: unvalidated` asks for it."""
    return lambda asked: UnvalidatedResult(
        event_id=f"{asked.request.request_id}.result",
        unvalidated_answer=from_json(to_json(answer)),
        problems=problems,
        **_about(asked),
    )


def refused(
    reason: str, *, by: Literal["model", "provider"] = "provider", category: str | None = None
) -> Reply:
    """A Refusal by model or provider; `category` is the word that the provider has for it."""
    return lambda asked: _refusal(asked, by, reason, category, None)


def dead_letter(cause: Cause) -> Reply:
    """A DeadLetter with this cause, such as `BudgetExhausted(which="tokens")`."""
    return lambda asked: DeadLetter(
        dead_letter_id=dead_letter_id(asked.request.request_id, asked.origin.topic),
        request_id=asked.request.request_id,
        workflow_id=asked.request.workflow_id,
        cause=cause,
        request=asked.request,
        raw=None,
        origin=asked.origin,
        prior=asked.request.prior,
        account=asked.account,
        at=asked.now,
        labels=asked.request.labels,
        body_digest=PublishedRecord(encode(asked.request).value).body_digest,
    )


def silence() -> Reply:
    """No outcome in time: `ask` raises NoAnswerYet, without waiting for its time to pass."""
    return lambda _: None


def kafka_away() -> Reply:
    """Kafka cannot be used: the call raises BusUnavailable, and nothing is published."""

    def reply(_: Asked) -> AnyOutcome:
        raise BusUnavailable("Kafka at this test cannot be used, it does not answer.")

    return reply


def fitting(schema: SchemaRef, contract: Contract[Any] | None, answer: JsonValue) -> JsonValue:
    """The answer as a worker would publish it. Raises UnfitAnswer if none would."""
    match schema:
        case ContractRef() if contract is not None:
            return _valid(contract.adapter, answer, f"{schema.name}.v{schema.version}")
        case TextRef() if not isinstance(answer, str):
            raise UnfitAnswer("is not a text, and the request asks for one")
        case InlineRef(wrapped=True):
            wrapped = _valid(_WRAPPED, answer, "wrapped answer")
            if isinstance(wrapped, dict) and wrapped["success"]:
                _check_inline(schema, wrapped["output"], "/output")
            return wrapped
        case InlineRef():
            _check_inline(schema, answer, "")
            return answer
        case _:
            return answer


def _valid(adapter: TypeAdapter[Any], answer: JsonValue, name: str) -> JsonValue:
    try:
        value = adapter.validate_json(to_json(answer))
    except ValidationError as error:
        problem = problems_of(error, answer)[0]
        raise UnfitAnswer(
            f"is not a valid {name}: at {problem.path or 'all of it'}, {problem.expected}"
        ) from None
    published: JsonValue = adapter.dump_python(value, mode="json", by_alias=True)
    return published


def _check_inline(schema: InlineRef, answer: JsonValue, path: str) -> None:
    """Check with the validator of the workers."""
    try:
        import jsonschema_rs  # noqa: PLC0415 - only tests with schemas of their own need it
    except ModuleNotFoundError:
        warnings.warn(_UNCHECKED, stacklevel=2)
        return
    try:
        validator = jsonschema_rs.validator_for(
            schema.json_schema, offline=True, validate_formats=True
        )
    except jsonschema_rs.ValidationError as error:
        raise UnfitAnswer(f"is for a schema that workers refuse: {error.message}") from None
    found = islice(validator.iter_errors(answer), _SHOWN_MAX)
    lines = [
        f"at {path + pointer(_place(error)) or 'its root'}, {error.message}" for error in found
    ]
    if lines:
        raise UnfitAnswer(f"does not satisfy the request's schema: {'; '.join(lines)}")


def _place(error: "jsonschema_rs.ValidationError") -> list[str | int]:
    """Where it is in the answer; a member that is missing has its place, too."""
    missing = error.kind.as_dict().get("property") if error.kind.name == "required" else None
    return [*error.instance_path, *([missing] if isinstance(missing, str) else [])]


def _refusal(
    asked: Asked,
    by: Literal["model", "provider"],
    reason: str,
    category: str | None,
    answer: JsonValue,
) -> Refusal:
    return Refusal(
        event_id=f"{asked.request.request_id}.refusal",
        by=by,
        reason=reason,
        category=category,
        answer=answer,
        **_about(asked),
    )


def _about(asked: Asked) -> dict[str, Any]:
    """The members of an outcome beside its answer, after its first attempt."""
    request, account = asked.request, asked.account
    spent = account.spent.model_copy(update={"attempts": account.spent.attempts + 1})
    return {
        "request_id": request.request_id,
        "workflow_id": request.workflow_id,
        "schema": _schema(asked),
        "attempt": 1,
        "model": ModelUsed(profile=request.profile, provider=_FAKE, model=_FAKE, dialect=_FAKE),
        "usage": Usage(),
        "account": account.model_copy(update={"spent": spent}),
        "requested_at": asked.origin.timestamp,
        "finished_at": asked.now,
        "labels": request.labels,
        "replay": request.replay,
        "body_digest": PublishedRecord(encode(request).value).body_digest,
    }


def _schema(asked: Asked) -> SchemaId:
    schema = asked.request.answer_schema
    match schema:
        case ContractRef():
            if asked.contract is None:
                raise FakeClientError(f"There is no contract {schema.name} v{schema.version}.")
            return asked.contract.id
        case InlineRef(name=name, wrapped=wrapped):
            return InlineId(name=name, wrapped=wrapped, digest=digest_of(schema.json_schema))
        case TextRef():
            return TextId(digest=digest_of({"type": "string"}))
        case _:
            assert_never(schema)
