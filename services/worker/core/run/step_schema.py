"""The possible next actions of a run as a schema for its next answer, and the reading of that."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from pydantic import JsonValue

from answerbus import json_text
from answerbus.agent import Malformed
from answerbus.answers.agent_action import ACTIONS_MAX, AGENT_ACTION
from answerbus.call_outcome import InvalidArgs, UnknownTool
from answerbus.failure import Invalid, Problem
from answerbus.limits import PROBLEMS_MAX, RATIONALE_BYTES_MAX
from answerbus.private.runs import AgentDefinition
from answerbus.problems import kind_of
from answerbus.wire import clip
from services.text.nesting import nests_deeper
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.embed import embedded
from services.worker.core.json_schema.keywords import AnySchema, JsonObject
from services.worker.core.run.ask_person import ARGS_SCHEMA
from services.worker.core.run.delegation import args_schema
from services.worker.core.run.run import ASK_PERSON, DELEGATE
from services.worker.core.schema.resolved import (
    Accepted,
    AcceptedStep,
    ResolvedSchema,
    Unusable,
    WantedCall,
)
from services.worker.core.schema.validator import SchemaValidator, compile_schema

FINISH = "finish"
NAME = "agent_action"
_BRANCHES = "#/properties/actions/items/anyOf"
# The owner of a tool has written these; the prompt shows them behind a fence (asking.py).
_WRITTEN_BY_OTHERS = frozenset({"description", "title", "$comment", "examples", "default"})
_ANY_OBJECT: JsonObject = {"type": "object"}

Validators = Mapping[str, SchemaValidator]
"""Of the arguments of each tool, by its name."""
_SIGN = '"thought"'
TOOL_CALL = "tool_call"
END_ACTIONS_MAX = 3  # of a step without tools: else a small model repeats its answer to the limit
_LEVELS_ABOVE = 3  # the answer, its list of actions, and the action
_IN_ARGS = re.compile(r"/actions/([0-9]{1,6})/args(/.*)?", re.DOTALL)

Faults = tuple[Problem, ...]


def faults_of_calls(
    value: JsonValue, faults: Faults
) -> tuple[JsonValue, Mapping[int, Faults], Faults]:
    """The answer with objects for arguments, the faults by call, and those of no call.

    Arguments that are not an object are such a fault, too.
    """
    calls, of_calls, others = dict(_calls(value)), defaultdict[int, list[Problem]](list), []
    for fault in faults:
        found = _IN_ARGS.fullmatch(fault.path)
        if found and int(found[1]) in calls:
            of_calls[int(found[1])].append(fault.model_copy(update={"path": found[2] or ""}))
        else:
            others.append(fault)
    bare = {place for place, call in calls.items() if not isinstance(call["args"], dict)}
    for place in bare - of_calls.keys():
        found_instead = kind_of(calls[place]["args"])
        of_calls[place].append(Problem.of("", "type", "an object", found=found_instead))
    kept = {place: tuple(found) for place, found in of_calls.items()}
    return _without_args(value, bare), kept, tuple(others)


def without_deep(value: JsonValue, levels: int) -> tuple[JsonValue, Faults]:
    """The answer without arguments that nest too deeply, and a fault for each of these."""
    levels -= _LEVELS_ABOVE
    deep = {place for place, call in _calls(value) if nests_deeper(call["args"], levels)}
    faults = (
        Problem.of(f"/actions/{place}/args", "too_deep", f"at most {levels} levels of nesting")
        for place in sorted(deep)
    )
    return _without_args(value, deep), tuple(faults)


def _calls(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    """By their places in an answer that may be of any form."""
    actions = value.get("actions") if isinstance(value, dict) else None
    for place, action in enumerate(actions if isinstance(actions, list) else ()):
        if isinstance(action, dict) and action.get("kind") == TOOL_CALL and "args" in action:
            yield place, action


def _without_args(value: JsonValue, places: set[int]) -> JsonValue:
    actions = value.get("actions") if isinstance(value, dict) else None
    if not places or not isinstance(value, dict) or not isinstance(actions, list):
        return value
    bare = [
        {**action, "args": {}} if place in places and isinstance(action, dict) else action
        for place, action in enumerate(actions)
    ]
    return {**value, "actions": bare}


def visible_text(text: str) -> str | None:
    """The texts of its actions, where it has some; else the text itself. None: all of it is hidden.

    Where it cannot be read as JSON, it is unknown which part of it is a thought.
    """
    parsed = json_text.parse(text.encode(errors="surrogatepass"))
    if isinstance(parsed, json_text.NotJson):
        return None if _SIGN in text else text
    actions = _written_actions(parsed.value)
    if actions is None:
        return text
    texts = [action.get("content") for action in actions if action.get("kind") == "text_response"]
    return "\n\n".join(it for it in texts if isinstance(it, str) and it.strip()) or None


def _written_actions(value: JsonValue) -> list[dict[str, JsonValue]] | None:
    """As `actions` of an object, as a bare list, or a single one; None: it has no thought."""
    listed = value.get("actions", value) if isinstance(value, dict) else value
    found = listed if isinstance(listed, list) else [listed]
    actions = [one for one in found if isinstance(one, dict) and "kind" in one]
    return actions or None


def resolve_step(
    definition: AgentDefinition,
    final: ResolvedSchema,
    *,
    must_finish: bool,
    malformed: Malformed | None = None,
    may_delegate: bool = False,
    may_use: bool = True,
) -> ResolvedSchema | Unusable:
    """The authority on one step; `final` is that on the run's own answer.

    In a step that must finish no tool is in the schema: the model cannot call one. `malformed`
    is what the request says in the place of its agent. `may_use`: a child could be given something.
    """
    validators: dict[str, SchemaValidator] = {}
    for name, schema in {} if must_finish else _args_schemas(definition):
        compiled = compile_schema(schema)
        if not isinstance(compiled, SchemaValidator):
            return Unusable(compiled)
        validators[name] = compiled
    args = {name: validator.document for name, validator in validators.items()}
    if DELEGATE in args and definition.delegate and not may_use:
        args[DELEGATE] = Document(args_schema(definition.delegate, may_use=False))
    if not may_delegate:
        args.pop(DELEGATE, None)  # a call all the same is read, and ends as one beyond a limit
    form = compile_schema(_form(final, has_tools=bool(validators)))
    if not isinstance(form, SchemaValidator):
        return Unusable(form)
    read = partial(_read, form, validators, final, show_thoughts=definition.show_thoughts)
    resolved = replace(
        final,
        name=NAME,
        description=AGENT_ACTION.summary,
        schema=_schema(args, final),
        read=read,
        read_partly=read,
        without_deep=without_deep,
        from_text=partial(_from_text, final, show_thoughts=definition.show_thoughts),
        from_loose=AGENT_ACTION.from_loose,
        malformed_is_text=(malformed or definition.malformed) == "text",
    )
    return resolved if definition.remember_thoughts else replace(resolved, shown=_without_thoughts)


def _args_schemas(definition: AgentDefinition) -> Iterator[tuple[str, JsonObject]]:
    for tool in definition.tools:
        yield tool.name, tool.card.args_schema
    if definition.delegate:
        yield DELEGATE, args_schema(definition.delegate)
    if definition.ask_person:
        yield ASK_PERSON, ARGS_SCHEMA


def _schema(args: Mapping[str, Document], final: ResolvedSchema) -> JsonObject:
    """`args` are the schemas of the arguments of each tool that may be called.

    To answer in text comes before the tools: shown tools first, a small model calls one each time.
    """
    says = _saying("text_response", "Say something to the person who asked.")
    branches: list[JsonValue] = [says] if final.schema is None else []
    for name, document in args.items():
        place = f"{_BRANCHES}/{len(branches)}/properties/args"
        branches.append(_tool_call(name, embedded(document, place, _WRITTEN_BY_OTHERS)))
    if final.schema is not None:
        place = f"{_BRANCHES}/{len(branches)}/properties/args"
        branches.append(_finish(embedded(Document(final.schema), place)))
    if final.schema is not None and args:
        branches.append(says)
    branches.append(_saying("thought", "Think aloud; nothing is done."))
    return _actions(branches, ACTIONS_MAX if args else END_ACTIONS_MAX)


def _form(final: ResolvedSchema, *, has_tools: bool) -> JsonObject:
    """The form of an answer alone: names and arguments are looked at one by one."""
    branches: list[JsonValue] = [_saying("text_response", ""), _saying("thought", "")]
    if final.schema is not None:
        branches.append(_finish({}))
    if has_tools:
        name: JsonObject = {"type": "string", "minLength": 1}
        branches.append(
            _object({"kind": {"const": "tool_call"}, "name": name, "args": _ANY_OBJECT})
        )
    return _actions(branches, ACTIONS_MAX)


def _actions(branches: list[JsonValue], most: int) -> JsonObject:
    items: JsonObject = {"anyOf": branches}
    listed: JsonObject = {"type": "array", "minItems": 1, "maxItems": most, "items": items}
    return _object({"actions": listed})


def _tool_call(name: str, args: AnySchema) -> JsonObject:
    properties: JsonObject = {"kind": {"const": "tool_call"}, "name": {"const": name}, "args": args}
    return _object(properties) | {"description": f"Call the tool {name}."}


def _finish(args: AnySchema) -> JsonObject:
    properties: JsonObject = {"kind": {"const": FINISH}, "args": args}
    return _object(properties) | {"description": "End with the final answer."}


def _saying(kind: str, description: str) -> JsonObject:
    properties: JsonObject = {"kind": {"const": kind}, "content": {"type": "string"}}
    return _object(properties) | ({"description": description} if description else {})


def _object(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _read(
    form: SchemaValidator,
    validators: Validators,
    final: ResolvedSchema,
    value: JsonValue,
    faults: tuple[Problem, ...] = (),
    *,
    show_thoughts: bool,
) -> Accepted | AcceptedStep | Invalid:
    """An answer as a step, if it calls tools, or as the end of the run.

    `faults` in the arguments of a call end that call alone; any other is one of the answer.
    """
    value, of_calls, others = faults_of_calls(value, faults)
    if others:
        return Invalid(problems=others[:PROBLEMS_MAX])
    if problems := form.problems(value):
        return Invalid(problems=problems)
    actions = _listed(value)
    texts, thoughts = _contents(actions, "text_response"), _contents(actions, "thought")
    rationale = clip("\n".join(thoughts), RATIONALE_BYTES_MAX) if thoughts else None
    calls = [
        (action, of_calls.get(place, ()))
        for place, action in enumerate(actions)
        if action["kind"] == TOOL_CALL
    ]
    ends = [place for place, action in enumerate(actions) if action["kind"] == FINISH]
    if calls and ends:
        return _wrong(f"/actions/{ends[0]}", "early_finish", "no `finish` beside tool calls")
    if calls:
        wanted = tuple(_wanted(call, found, validators) for call, found in calls)
        return AcceptedStep(texts, wanted, thoughts, rationale)
    if ends:
        return _finished(actions, ends, final, rationale)
    if final.schema is not None:
        return _wrong("/actions", "no_finish", "a `finish` action with the final answer")
    shown = (*texts, *thoughts) if show_thoughts and texts else texts
    if not shown:
        return _wrong("/actions", "only_thoughts", "a tool call, or a `text_response`")
    return Accepted("\n\n".join(dict.fromkeys(shown)), rationale=rationale)  # each said once


def _finished(
    actions: list[JsonObject], ends: list[int], final: ResolvedSchema, rationale: str | None
) -> Accepted | AcceptedStep | Invalid:
    place = f"/actions/{ends[0]}/args"
    if len(ends) > 1:
        return _wrong(f"/actions/{ends[1]}", "two_ends", "one `finish` action")
    read = final.read(actions[ends[0]]["args"])
    if isinstance(read, Invalid):
        return Invalid(problems=tuple(problem.under(place) for problem in read.problems))
    if isinstance(read, AcceptedStep):
        raise TypeError("the answer of a run is not a step")
    own = [text for text in (rationale, read.rationale) if text]
    return replace(read, rationale=clip("\n".join(own), RATIONALE_BYTES_MAX) if own else None)


def _wanted(call: JsonObject, faults: tuple[Problem, ...], validators: Validators) -> WantedCall:
    name, args = str(call["name"]), call["args"]
    given = args if isinstance(args, dict) else {}
    validator = validators.get(name)
    if validator is None:
        return WantedCall(name, given, UnknownTool(known=tuple(validators)))
    problems = faults[:PROBLEMS_MAX] or validator.problems(given)
    return WantedCall(name, given, InvalidArgs(problems=problems) if problems else None)


def _from_text(final: ResolvedSchema, text: str, *, show_thoughts: bool) -> Accepted | Invalid:
    answer = text if show_thoughts else visible_text(text)
    if answer is None:
        return _wrong("", "only_thoughts", "a `text_response`")
    if final.schema is None:
        return Accepted(answer)
    if final.from_text is None:
        return _wrong("", "no_text", "a `finish` action")
    return final.from_text(answer)


def _without_thoughts(answer: JsonValue) -> JsonValue:
    """The part of a rejected answer that a later prompt and events may show."""
    listed = answer.get("actions") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    kept = [one for one in listed if not isinstance(one, dict) or one.get("kind") != "thought"]
    return {"actions": kept} if kept else None


def _listed(value: JsonValue) -> list[JsonObject]:
    actions = value.get("actions") if isinstance(value, dict) else None
    listed = actions if isinstance(actions, list) else []
    return [action for action in listed if isinstance(action, dict)]


def _contents(actions: list[JsonObject], kind: str) -> tuple[str, ...]:
    texts = (str(action["content"]) for action in actions if action["kind"] == kind)
    return tuple(text for text in texts if text.strip())


def _wrong(path: str, code: str, expected: str) -> Invalid:
    return Invalid(problems=(Problem.of(path, code, expected),))
