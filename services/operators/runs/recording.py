"""From the events of one workflow to its cassette; pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from answerbus.agent import AgentId
from answerbus.cassette import Cassette, RecordedRequest
from answerbus.dead_letter import ConflictingId, DeadLetter, RequestTooLarge, UndecodableCause
from answerbus.event import AnyOutcome, Event
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.private.runs import AgentDefinition, RunChildRecord, RunRecord
from answerbus.redaction import redacted
from answerbus.request import InlineRef, Request
from answerbus.step import Step, ToolEnded

# What people, models and tools have written; ids, names, digests and times stay as they are.
_CONTENT = frozenset({"context", "said", "args", "value", "message", "excerpt", "reason"})
_ANSWERS = frozenset({"answer", "unvalidated_answer", "labels", "notes", "problems"})
_SCHEMA = "json_schema"
_RAW = "raw"  # the record of a dead letter in Base64, where no rule matches
_DIGESTS = {"tools": {"__all__": {"card": {"digest"}}}}


@dataclass(slots=True)
class _Recorded:
    request: Request | None = None
    definition: AgentDefinition | None = None
    events: dict[str, Step | ToolEnded] = field(default_factory=dict)  # by their ids
    outcome: AnyOutcome | None = None


class Recording:
    """Takes the events of a workflow in the order of their topics; each counts once."""

    def __init__(self, workflow_id: str) -> None:
        self._workflow_id = workflow_id
        self._found: dict[str, _Recorded] = {}

    def take(self, event: Event) -> None:
        match event:
            case Request():
                self._of(event.request_id).request = self._of(event.request_id).request or event
            case RunRecord(request=request):
                one = self._of(request.request_id)
                one.request, one.definition = one.request or request, event.definition
            case RunChildRecord(request=request):
                one = self._of(request.request_id)
                one.request = one.request or request
            case Step() | ToolEnded():
                self._of(event.request_id).events.setdefault(event.event_id, event)
            case DeadLetter(cause=ConflictingId() | UndecodableCause() | RequestTooLarge()):
                pass  # of another record under the id
            case DeadLetter(request_id=str(name), request=request):
                one = self._of(name)
                one.request, one.outcome = one.request or request, one.outcome or event
            case Result() | UnvalidatedResult() | Refusal():
                one = self._of(event.request_id)
                one.outcome = one.outcome or event
            case _:
                pass

    @property
    def unknown_definitions(self) -> Mapping[str, str]:
        """By digest the agents, such as `support`, whose definitions were not among the events."""
        agents = (_agent(one) for one in self._found.values() if one.definition is None)
        return {agent.digest: agent.name for agent in agents if agent}

    def cassette(
        self,
        definitions: Mapping[str, AgentDefinition],
        rules: Collection[str] = (),
        only: str | None = None,
    ) -> Cassette | None:
        """What is known, with definitions by their digests; None if no request is known.

        `only` is the request that is wanted, with those that its run asked.
        """
        requests = [
            _request(one, _definition(one, definitions), rules)
            for one in self._found.values()
            if one.request and (only is None or _is_of(one.request, only))
        ]
        if not requests:
            return None
        return Cassette(
            workflow_id=self._workflow_id,
            redactions=tuple(rules),
            requests=tuple(requests),
        )

    def _of(self, name: str) -> _Recorded:
        return self._found.setdefault(name, _Recorded())


def _agent(one: _Recorded) -> AgentId | None:
    """As its steps say; a run that has answered at once has an outcome alone."""
    for event in one.events.values():
        if isinstance(event, Step):
            return event.agent
    return one.outcome.run.agent if one.outcome and one.outcome.run else None


def _definition(
    one: _Recorded, definitions: Mapping[str, AgentDefinition]
) -> AgentDefinition | None:
    agent = _agent(one)
    return one.definition or (definitions.get(agent.digest) if agent else None)


def _is_of(request: Request, only: str) -> bool:
    return request.request_id == only or (
        request.parent is not None and request.parent.request_id == only
    )


def _request(
    one: _Recorded, definition: AgentDefinition | None, rules: Collection[str]
) -> RecordedRequest:
    found = RecordedRequest.model_validate(
        {
            "request": one.request,
            "definition": definition,
            "events": tuple(one.events.values()),
            "outcome": one.outcome,
        }
    )
    if not rules:
        return found
    clean = _clean(found.model_dump(mode="json", exclude={"definition"}), rules)
    return RecordedRequest.model_validate({**clean, "definition": definition})


def unredacted(cassette: Cassette) -> Iterator[str]:
    """Where a rule matches in what is never redacted: agents' definitions, and inline schemas."""
    for one in cassette.requests:
        kept: dict[str, JsonValue] = {}
        if one.definition is not None:
            kept["agent's definition"] = one.definition.model_dump(mode="json", exclude=_DIGESTS)
        if isinstance(asked := one.request.answer_schema, InlineRef):
            kept["schema"] = asked.model_dump(mode="json", include={"description", _SCHEMA})
        for name, value in kept.items():
            for rule in cassette.redactions:
                if redacted(value, (rule,)) != value:
                    place = f"the {name} of {one.request.request_id}"
                    yield f"{rule} matches in {place}, which stays as it is"


def _clean(body: dict[str, JsonValue], rules: Collection[str]) -> dict[str, JsonValue]:
    """With the rules applied to what has content, wherever it is."""
    content = _CONTENT | _ANSWERS
    if body.get("kind") != "refusal":  # which is by the model, or by the provider
        content |= {"by"}
    return {
        name: redacted({name: value}, rules)[name]  # type: ignore[index,call-overload]
        if name in content
        else value
        if name == _SCHEMA
        else None
        if name == _RAW
        else _clean_inner(value, rules)
        for name, value in body.items()
    }


def _clean_inner(value: JsonValue, rules: Collection[str]) -> JsonValue:
    match value:
        case dict():
            return _clean(value, rules)
        case list():
            return [_clean_inner(item, rules) for item in value]
        case _:
            return value
