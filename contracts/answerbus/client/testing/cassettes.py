"""Recorded workflows in tests: what a service asks, its tools and its types, held against them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json
from typing_extensions import TypeForm

from answerbus.cassette import (
    CASSETTE_BYTES_MAX,
    Cassette,
    CassetteFault,
    RecordedRequest,
    read_cassette,
)
from answerbus.client.answer_type import AnswerType
from answerbus.client.testing.errors import CassetteError
from answerbus.client.testing.replies import Asked, Reply, UnfitAnswer, answered, fitting
from answerbus.dead_letter import DeadLetter, dead_letter_id
from answerbus.difference import first_difference
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.plugins import installed
from answerbus.problems import problems_of
from answerbus.redaction import redacted
from answerbus.registry import Registry
from answerbus.request import ContractRef, Request
from answerbus.toolset_card import ToolCard, ToolsetCard

AnswerT = TypeVar("AnswerT")
_ASKED = {"context", "answer_schema", "agent", "profile", "policy"}
_OF_RECORD = ("attempt", "model", "usage", "notes", "run")


def load_cassette(path: Path) -> Cassette:
    """The cassette in a file. Raises CassetteError, which says what is wrong with it."""
    with path.open("rb") as file:
        found = read_cassette(file.read(CASSETTE_BYTES_MAX + 1))
    if isinstance(found, CassetteFault):
        raise CassetteError(f"{path} is not a playable cassette: {found.text}.")
    return found


class CassettePlayer:
    """Ends the requests of a service as those that were recorded, each recorded one once."""

    def __init__(self, cassette: Cassette) -> None:
        self._rules = cassette.redactions
        self._left = [
            (_asked(one.request, self._rules), one)
            for one in cassette.requests
            if one.request.parent is None
        ]

    def reply_to(self, request: Request) -> Reply:
        """Raises CassetteError with the nearest difference for one that was not recorded."""
        if not self._left:
            raise CassetteError(f"Nothing more was recorded than what was asked before {request}.")
        present = _asked(request, self._rules)
        for place, (recorded, one) in enumerate(self._left):
            if recorded == present:
                del self._left[place]
                return _reply(one.outcome)
        recorded, nearest = self._left[0]
        raise CassetteError(
            f"What is asked is not what was recorded as {nearest.request.request_id}: "
            f"{first_difference(recorded, present)}"
        )


def compare_tools(cassette: Cassette, toolset: ToolsetCard) -> None:
    """Raises CassetteError where a tool's card is not the one that a recorded run was given."""
    present = {tool.name: tool for tool in toolset.tools}
    for recorded in cassette.requests:
        tools = recorded.definition.tools if recorded.definition else ()
        for tool in (tool for tool in tools if tool.toolset == toolset.toolset):
            card = present.get(tool.card.name)
            was, now = _card(tool.card), _card(card) if card else None
            if difference := first_difference(was, now):
                name = recorded.request.request_id
                raise CassetteError(
                    f"The tool {tool.name} is not as {name} was given it: {difference}"
                )


def accepted_answer(
    cassette: Cassette | Path,
    *,
    request_id: str,
    response_model: TypeForm[AnswerT] | None = None,
    registry: Registry | None = None,
) -> Any:
    """The first recorded answer that is valid now. Raises CassetteError, with why none is.

    Valid is what `response_model` reads; without it, what satisfies the recorded request's contract
    as it is installed, or the schema in the request.
    """
    found = load_cassette(cassette) if isinstance(cassette, Path) else cassette
    recorded = next((one for one in found.requests if one.request.request_id == request_id), None)
    if recorded is None:
        raise CassetteError(f"The cassette has no request {request_id}.")
    known = installed() if registry is None else registry
    faults = []
    for attempt, answer in _answers(recorded):
        try:
            return _read(recorded.request, answer, response_model, known)
        except UnfitAnswer as error:
            faults.append(f"attempt {attempt} {error.why}")
    why = "" if recorded.outcome is None else f" {recorded.outcome}"
    raise CassetteError(
        f"No recorded answer to {request_id} is valid: {'; '.join(faults) or 'there is none'}.{why}"
    )


def _answers(recorded: RecordedRequest) -> list[tuple[int, JsonValue]]:
    """With the numbers of their attempts."""
    found: list[tuple[int, JsonValue]] = [(one.attempt, one.answer) for one in recorded.prior]
    match recorded.outcome:
        case Result(attempt=attempt, answer=answer) | Refusal(attempt=attempt, answer=answer):
            found.append((attempt, answer))
        case UnvalidatedResult(attempt=attempt, unvalidated_answer=answer):
            found.append((attempt, answer))
        case _:
            pass
    return [(attempt, answer) for attempt, answer in found if answer is not None]


def _read(
    request: Request, answer: JsonValue, response_model: TypeForm[Any] | None, registry: Registry
) -> Any:
    schema = request.answer_schema
    if response_model is None:
        contract = registry.find(schema) if isinstance(schema, ContractRef) else None
        return fitting(schema, contract, answer)
    try:
        return AnswerType.of(response_model, registry).reader.validate_json(to_json(answer))
    except ValidationError as error:
        problem = problems_of(error, answer)[0]
        raise UnfitAnswer(f"breaks {problem.path or 'its type'}: {problem.expected}") from None


def _asked(request: Request, rules: Collection[str]) -> JsonValue:
    """The members of a request that decide on its answer; the rules are for its context alone."""
    asked = request.model_dump(mode="json", include=_ASKED)
    clean: Any = redacted({"context": asked["context"]}, rules)
    found: JsonValue = asked | clean
    return found


def _card(card: ToolCard) -> JsonValue:
    """Without the rule of approval: of what was recorded it is the operator's, too."""
    found: JsonValue = card.model_dump(mode="json", exclude={"digest", "approval"})
    return found


def _reply(outcome: AnyOutcome | None) -> Reply:
    def reply(asked: Asked) -> AnyOutcome | None:
        request = asked.request
        ids = {"request_id": request.request_id, "workflow_id": request.workflow_id}
        match outcome:
            case None:
                return None
            case Result(answer=answer):
                recorded = {name: getattr(outcome, name) for name in _OF_RECORD}
                ended = answered(answer)(asked)
                return ended and ended.model_copy(update=recorded)
            case DeadLetter():
                name = dead_letter_id(request.request_id, asked.origin.topic)
                about = {"dead_letter_id": name, "request": request, "account": asked.account}
                return outcome.model_copy(update={**ids, **about, "origin": asked.origin})
            case UnvalidatedResult() | Refusal():
                suffix = outcome.event_id.rpartition(".")[2]
                about = {"event_id": f"{request.request_id}.{suffix}", "account": asked.account}
                return outcome.model_copy(update={**ids, **about})

    return reply
