"""From a recorded request to its exchanges with a model: each prompt, and what was answered."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus.cassette import RecordedRequest
from answerbus.difference import FirstDifference, first_difference
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.private.runs import (
    AgentDefinition,
    AskedCall,
    Link,
    RunCallRecord,
    RunStepRecord,
)
from answerbus.registry import Registry
from answerbus.request import Prior, Request
from answerbus.step import Step
from services.text.digest import text_digest
from services.worker.core.attempt.prompt import Prompt, build
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.repeats import must_finish
from services.worker.core.run.run import Run, named
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName, compile_for
from services.worker.planning.step_schemas import StepSchema

DIALECT: DialectName = "prompted"  # in which a model writes an answer as it is meant
ANSWER = "the answer"
_NOT_KEPT = "(not recorded)"  # of members that are for auditors alone
_MARK = re.compile(r"(</?data )[0-9a-f]{12}\b")  # depends on the secret of a deployment


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call of a model, in the dialect `prompted`; `reply` is the answer as it was written.

    `resolved` reads it, and `is_accepted` if it was. `place` names the step. `definition` is that
    of its run.
    """

    place: str
    prompt: Prompt
    reply: str
    resolved: ResolvedSchema
    definition: AgentDefinition | None
    is_accepted: bool = True

    @property
    def key(self) -> str:
        """The digest of all that the model reads."""
        return text_digest("\0".join(texts_of(self.prompt)))


@dataclass(frozen=True, slots=True)
class Unplayable:
    """Why a recorded request cannot be played."""

    text: str


def texts_of(prompt: Prompt) -> list[str]:
    """The prompt as the model reads it: system text with the schema, then each turn; no marks."""
    turns = (f"{turn.role}: {turn.text}" for turn in prompt.turns)
    return [_MARK.sub(r"\1", text) for text in (prompt.system, *turns)]


def prompt_difference(recorded: Prompt, present: Prompt) -> FirstDifference | None:
    """The first difference of what a model reads: in the system text, or in which turn."""
    one, other = texts_of(recorded), texts_of(present)
    if one[0] != other[0]:
        found = first_difference(one[0], other[0])
        return found and FirstDifference("/system", found.recorded, found.present)
    found = first_difference([*one[1:]], [*other[1:]])
    return found and found.under("/turns")


def exchanges_of(
    recorded: RecordedRequest, definition: AgentDefinition | None, registry: Registry
) -> tuple[Exchange, ...] | Unplayable:
    """All that are known, in their order. `definition` is the one to play with, for a run."""
    request = recorded.request
    if request.agent is None:
        resolved = resolve(request.answer_schema, registry)
        if isinstance(resolved, Unusable):
            return Unplayable(f"its schema is unusable: {resolved.cause.kind}")
        reply = _answer(recorded, resolved)
        return (*_asked(request, resolved, ANSWER, recorded.prior, reply, None),)
    if definition is None:
        return Unplayable("the definition of its agent is not known")
    if definition.composition or definition.remember_thoughts or request.resumed:
        return Unplayable(
            "its prompts depend on what is not recorded (a composition, thoughts, or a replay)"
        )
    ran = recorded.outcome and recorded.outcome.run
    if ran and (kept := len([*recorded.steps])) < ran.steps:
        return Unplayable(f"only {kept:,} of its {ran.steps:,} steps are recorded")
    return _of_run(recorded, definition, registry)


def _of_run(
    recorded: RecordedRequest, definition: AgentDefinition, registry: Registry
) -> tuple[Exchange, ...] | Unplayable:
    found: list[Exchange] = []
    run = Run(definition)
    for step in (*recorded.steps, None):
        finishes = must_finish(run)
        resolved = StepSchema.after(run, recorded.request, finishes=finishes).resolved(registry)
        if isinstance(resolved, Unusable):
            return Unplayable(f"the schema of a step is unusable: {resolved.cause.kind}")
        asked = next_step_request(recorded.request, run, must_finish=finishes)
        if step is None:
            reply = _final(recorded)
            found += _asked(asked, resolved, ANSWER, recorded.prior, reply, definition)
        else:
            found += _asked(asked, resolved, f"step {step.n}", (), _written(step), definition)
            run = _after(run, step, recorded)
    return (*found,)


def _asked(
    request: Request,
    resolved: ResolvedSchema,
    place: str,
    prior: Sequence[Prior],
    reply: str | None,
    definition: AgentDefinition | None,
) -> Iterator[Exchange]:
    """The attempts whose answers are known: those that failed, and the one that was accepted."""
    wire = compile_for(DIALECT, resolved)
    if isinstance(wire, Unusable):
        return
    for count, entry in enumerate(prior):
        if entry.answer is not None:
            written = entry.answer if isinstance(entry.answer, str) else json.dumps(entry.answer)
            prompt = build(request, wire, prior[:count], 1)
            name = f"{place}, attempt {entry.attempt}"
            yield Exchange(name, prompt, written, resolved, definition, is_accepted=False)
    if reply is not None:
        yield Exchange(place, build(request, wire, prior, 1), reply, resolved, definition)


def _after(run: Run, step: Step, recorded: RecordedRequest) -> Run:
    """The run with the step as it ended."""
    ends = {event.call_id: event for event in recorded.events if event.kind == "tool_ended"}
    name, link = recorded.request.request_id, Link(number=step.n, hash=step.hash)
    record = RunStepRecord(
        request_id=name,
        n=step.n,
        attempt=step.attempt,
        said=step.said,
        calls=tuple(AskedCall(**named(call)) for call in step.calls),
        link=link,
    )
    run = run.with_step(record)
    for place, call in enumerate(step.calls):
        if end := ends.get(call.call_id):
            ended = RunCallRecord(
                request_id=name, n=step.n, place=place, outcome=end.outcome, edited=end.edited
            )
            run = run.with_call(ended, call.call_id)
    return run


def _written(step: Step) -> str:
    """The step as a model would write it."""
    actions: list[JsonValue] = [{"kind": "text_response", "content": said} for said in step.said]
    actions += [{"kind": "tool_call", "name": call.tool, "args": call.args} for call in step.calls]
    return json.dumps({"actions": actions}, ensure_ascii=False)


def _final(recorded: RecordedRequest) -> str | None:
    answer = _published(recorded)
    if answer is None:
        return None
    is_text = recorded.request.answer_schema.kind == "text"
    action: JsonValue = (
        {"kind": "text_response", "content": answer}
        if is_text
        else {"kind": "finish", "args": answer}
    )
    return json.dumps({"actions": [action]}, ensure_ascii=False)


def _answer(recorded: RecordedRequest, resolved: ResolvedSchema) -> str | None:
    answer = _published(recorded)
    if answer is None or (isinstance(answer, str) and resolved.schema is None):
        return answer
    if not isinstance(resolved.read(answer), Accepted):
        answer = _with_audit_members(answer, resolved.audit_only)
    return json.dumps(answer, ensure_ascii=False)


def _published(recorded: RecordedRequest) -> JsonValue:
    match recorded.outcome:
        case Result(answer=answer) | UnvalidatedResult(unvalidated_answer=answer):
            return answer
        case Refusal(answer=answer):
            return answer
        case _:
            return None


def _with_audit_members(answer: JsonValue, names: frozenset[str]) -> JsonValue:
    """The published members, with a text for each member that was not published."""
    match answer:
        case dict():
            return {**dict.fromkeys(sorted(names), _NOT_KEPT), **answer}
        case list():
            return [_with_audit_members(item, names) for item in answer]
        case _:
            return answer
