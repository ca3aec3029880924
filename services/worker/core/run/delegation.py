"""`delegate`: the tool by which a run asks children, with schemas that its model writes; pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from pydantic import JsonValue

from answerbus.call_outcome import CallOk, InvalidArgs, NotRun, ResultTooLarge, UnknownTool
from answerbus.failure import Problem
from answerbus.limits import (
    CHILD_SCHEMA_BYTES_MAX,
    CHILD_TEXT_BYTES_MAX,
    NAME_CHARS_MAX,
    REASON_BYTES_MAX,
    USES_MAX,
)
from answerbus.private.runs import Delegation, RunStepRecord
from answerbus.request import Fact, Request
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.run import Run, ToolCall

# A small model writes a schema as it has seen one, and names anything in `use` where there is one.
HOW_TO_DELEGATE = (
    "With `delegate` you ask a specialist for one part of the work: `json_schema` is the JSON "
    "Schema of its `output`, `description` says what that is, `instructions` say what to do. For "
    'example: {"kind": "tool_call", "name": "delegate", "args": {"name": "capital", '
    '"description": "The capital and its people.", "instructions": "What is the capital of Spain, '
    'and how many live there?", "json_schema": {"type": "object", "properties": {"city": {"type": '
    '"string"}, "people": {"type": "integer"}}, "required": ["city", "people"]}}}. It answers with '
    "`output`, `success`, `notes` and `failure_reason`. Parts that do not need each other go into "
    "one step. A specialist knows nothing of this conversation: "
)
WITH_USE = (
    'name in `use` what it is to be given, such as "fact:NAME" for a fact that you were given, or '
    '"call:2.0" for the result of a call that is told to you under that name.'
)
WITHOUT_USE = "say in `instructions` all that it needs."


_NEVER_ASKED = (InvalidArgs, NotRun, UnknownTool)


def depth_of(request: Request) -> int:
    """How many runs are above it."""
    return request.parent.depth if request.parent else 0


def may_delegate(request: Request, run: Run) -> bool:
    """Whether the run may ask one more child."""
    allowed = run.definition.delegate
    if allowed is None or depth_of(request) >= allowed.depth_max:
        return False
    return calls_so_far(run) < allowed.children_max


def within(run: Run, above: Run, depth: int) -> Run:
    """A run that begins as a child: the tree is no deeper than the run above it allows."""
    own, outer = run.definition.delegate, above.definition.delegate
    if run.composition and outer and not run.own_steps and depth >= outer.depth_max:
        return replace(run, definition=run.definition.without_composition())
    if run.own_steps or own is None or outer is None or own.depth_max <= outer.depth_max:
        return run
    bounded = own.model_copy(update={"depth_max": outer.depth_max})
    return replace(run, definition=run.definition.model_copy(update={"delegate": bounded}))


def calls_so_far(run: Run) -> int:
    """How many children the run has asked itself, or will once their turn has come."""
    calls = (call for step in run.steps for call in run.made_calls_of(step) if call.asks_child)
    return sum(
        call.asked.same_as is None and not isinstance(call.outcome, _NEVER_ASKED) for call in calls
    )


def may_use(request: Request, run: Run) -> bool:
    """Whether there is anything that a child could be given."""
    return bool(request.context.facts) or any(_results(run))


def how_to_delegate(*, may_use: bool) -> str:
    """The instructions for the model."""
    return HOW_TO_DELEGATE + (WITH_USE if may_use else WITHOUT_USE)


def args_schema(allowed: Delegation, *, may_use: bool = True) -> JsonObject:
    """The arguments that start a child; agents and profiles are those that the operator allows."""
    name: JsonObject = {"type": "string", "pattern": r"^[A-Za-z0-9._\-]+$"}
    reference: JsonObject = {"type": "string", "pattern": r"^(fact|call):"}
    properties: JsonObject = {
        "name": name | {"minLength": 1, "maxLength": NAME_CHARS_MAX},
        "description": {"type": "string"},
        "instructions": {"type": "string", "minLength": 1},
        "json_schema": {"type": "object"},
    }
    if may_use:
        properties["use"] = {"type": "array", "items": reference, "maxItems": USES_MAX}
    if allowed.agents:
        properties["agent"] = {"type": "string", "enum": [*dict.fromkeys(allowed.agents)]}
    if allowed.profiles:
        properties["profile"] = {"type": "string", "enum": [*dict.fromkeys(allowed.profiles)]}
    return {
        "type": "object",
        "properties": properties,
        "required": ["name", "description", "instructions", "json_schema"],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class DelegateArgs:
    """The arguments of a `delegate` call, which satisfy its schema."""

    name: str
    description: str
    instructions: str
    json_schema: JsonObject
    use: tuple[str, ...]
    agent: str | None
    profile: str | None

    def too_large(self) -> Iterator[Problem]:
        texts = {
            "/description": (self.description, REASON_BYTES_MAX),
            "/instructions": (self.instructions, CHILD_TEXT_BYTES_MAX),
            "/json_schema": (_json(self.json_schema), CHILD_SCHEMA_BYTES_MAX),
        }
        for path, (text, limit) in texts.items():
            if len(text.encode(errors="replace")) > limit:
                yield Problem.of(path, "too_large", f"at most {limit:,} bytes")


def read_args(args: Mapping[str, JsonValue]) -> DelegateArgs:
    schema, use = args.get("json_schema"), args.get("use")
    return DelegateArgs(
        name=str(args.get("name")),
        description=str(args.get("description")),
        instructions=str(args.get("instructions")),
        json_schema=schema if isinstance(schema, dict) else {},
        use=tuple(dict.fromkeys(map(str, use))) if isinstance(use, list) else (),
        agent=_text(args.get("agent")),
        profile=_text(args.get("profile")),
    )


def call_names(
    run: Run, first: int = 0
) -> Iterator[tuple[RunStepRecord, tuple[tuple[str, ToolCall], ...]]]:
    """The steps from the `first` on with their calls, which the run names by attempt and place.

    Where it goes on from another run, its attempts are counted on from those of that one, so that a
    name means one call, and means it in each later replay, too.
    """
    for number, step in islice(_numbered(run), first, None):
        yield step, tuple((reference_of(number, call.place), call) for call in run.calls_of(step))


def _numbered(run: Run) -> Iterator[tuple[int, RunStepRecord]]:
    number = before = 0
    for step in run.steps:
        number += step.attempt - before if step.attempt > before else step.attempt
        before = step.attempt
        yield number, step


def reference_of(number: int, place: int) -> str:
    """How a run names the call at a place of its attempt of that number."""
    return f"call:{number}.{place}"


def used(request: Request, run: Run, args: DelegateArgs) -> Iterator[Fact | Problem]:
    """The input of a child: facts as they are, results of calls as data."""
    if not args.use:  # a run may have thousands of results
        return
    facts = {f"fact:{fact.name}": fact for fact in request.context.facts}
    results = dict(_results(run))
    known = ", ".join(facts | results)
    for number, reference in enumerate(args.use):
        if result := results.get(reference):
            yield _fact(reference, *result)
        elif fact := facts.get(reference):
            yield fact
        else:
            expected = f"one of {known}" if known else "nothing: there is nothing to name"
            yield Problem.of(f"/use/{number}", "unknown_reference", expected)


def _results(run: Run) -> Iterator[tuple[str, tuple[str, CallOk | ResultTooLarge]]]:
    """Each by its name, with its tool. No facts: these are made of few, and read each value."""
    for number, step in _numbered(run):
        for call in run.made_calls_of(step):
            if isinstance(call.outcome, CallOk | ResultTooLarge):
                yield reference_of(number, call.place), (call.asked.tool, call.outcome)


def _fact(name: str, tool: str, outcome: CallOk | ResultTooLarge) -> Fact:
    """A result; of one that is larger than the run could take, its size, beginning and digest."""
    value = outcome.value if isinstance(outcome, CallOk) else outcome.model_dump(mode="json")
    return Fact(name=f"{name} {tool}"[:NAME_CHARS_MAX], value=value)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
