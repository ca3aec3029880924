"""Builds a Request from the command line; only `read` opens files."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Never, get_args

import typer
from pydantic import JsonValue, ValidationError

from answerbus import json_text
from answerbus.agent import AgentRef
from answerbus.budget import Budget
from answerbus.cause import HostileSchema, UnsupportedSchema
from answerbus.envelope import Undecodable, decode_request
from answerbus.problems import pointer
from answerbus.registry import Registry
from answerbus.request import (
    Context,
    ContractRef,
    Fact,
    InlineRef,
    Message,
    Policy,
    Request,
    SchemaRef,
    TextRef,
)
from services.operators.explain import cause_text, problem_text, remedy
from services.operators.records.money import micro_usd_of

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class AskArguments:
    """The options that describe a request; None is what was not given."""

    instructions: str
    workflow: str | None = None
    contract: str | None = None
    schema: str | None = None
    facts: Sequence[str] = ()
    messages: Sequence[str] = ()
    profile: str | None = None
    attempts: int | None = None
    tokens: int | None = None
    money: str | None = None
    ttl: int | None = None
    labels: Sequence[str] = ()
    bare: bool = False
    at_last: str | None = None
    policy: Sequence[str] = ()
    agent: str | None = None
    tools: Sequence[str] = ()


def request_of_arguments(
    arguments: AskArguments, registry: Registry, read: Read, new_id: str
) -> Request:
    """The request that the options describe; raises typer.BadParameter."""
    facts = [_pair("--fact", text) for text in arguments.facts]
    try:
        return Request(
            request_id=new_id,
            workflow_id=new_id if arguments.workflow is None else arguments.workflow,
            answer_schema=_schema(arguments, registry, read),
            context=Context(
                instructions=arguments.instructions,
                messages=tuple(Message(role="user", content=text) for text in arguments.messages),
                facts=tuple(Fact(name=name, value=_value(text, read)) for name, text in facts),
            ),
            labels=dict(_pair("--label", text) for text in arguments.labels),
            policy=_policy(arguments),
            **_given(
                profile=arguments.profile,
                ttl_s=arguments.ttl,
                agent=_agent(arguments),
                budget=_budget(arguments),
            ),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        _refuse(f"{pointer(first['loc'])}: {first['msg']}")


def request_of_file(content: bytes, new_id: str) -> Request:
    """The request in a file, which may leave `kind` and `request_id` out; raises BadParameter."""
    parsed = json_text.parse(content)
    if isinstance(parsed, json_text.Parsed) and isinstance(parsed.value, dict):
        content = json.dumps({"kind": "request", "request_id": new_id, **parsed.value}).encode()
    received = decode_request(content)
    if isinstance(received, Undecodable):
        _refuse("The request: " + "; ".join(map(problem_text, received.problems)))
    if received.unknown_fields:
        _refuse(f"A request has no such fields: {', '.join(received.unknown_fields)}")
    return received.request


def _schema(arguments: AskArguments, registry: Registry, read: Read) -> SchemaRef:
    if arguments.contract and arguments.schema:
        _refuse("Give --contract or --schema, not both.")
    if arguments.bare and not arguments.schema:
        _refuse("--bare goes with --schema: it asks for the answer without a way to decline.")
    if arguments.contract:
        return _contract(arguments.contract, registry)
    if arguments.schema is None:
        return TextRef()
    return inline_schema(arguments.schema, read(arguments.schema), wrapped=not arguments.bare)


def inline_schema(file: str, content: bytes, *, wrapped: bool) -> InlineRef:
    """The schema in a file, called like it, if workers accept it; raises typer.BadParameter."""
    from services.worker.core.schema.validator import compile_schema  # noqa: PLC0415 - loads slowly

    parsed = json_text.parse(content)
    if isinstance(parsed, json_text.NotJson):
        _refuse(f"{file} holds no JSON: expected {parsed.reason} (byte {parsed.position}).")
    if not isinstance(parsed.value, dict | bool):
        _refuse(f"{file} holds no JSON Schema (a JSON object).")
    compiled = compile_schema(parsed.value)
    if isinstance(compiled, HostileSchema | UnsupportedSchema):
        _refuse(f"{file}: {cause_text(compiled)} {remedy(compiled)}")
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", PurePath(file).stem)
    return InlineRef(name=name, json_schema=parsed.value, wrapped=wrapped)


def _agent(arguments: AskArguments) -> AgentRef | None:
    if arguments.agent is None:
        if arguments.tools:
            _refuse("--tool goes with --agent: it leaves out the agent's other tools.")
        return None
    tools = tuple(arguments.tools) or None
    return agent_of(arguments.agent, tools)


def agent_of(text: str, tools: tuple[str, ...] | None = None) -> AgentRef:
    """An agent by name, or by name and version as `support.v3`. Raises ValidationError."""
    name, dot_v, digits = text.rpartition(".v")
    if dot_v and digits.isdecimal() and int(digits):
        return AgentRef(name=name, version=int(digits), tools=tools)
    return AgentRef(name=text, tools=tools)


def _budget(arguments: AskArguments) -> Budget | None:
    """None where nothing is said of it: a run then has its agent's."""
    micro_usd = None if arguments.money is None else micro_usd_of(arguments.money)
    if arguments.money is not None and micro_usd is None:
        _refuse(f"--money takes US dollars such as 0.25, not {arguments.money!r}.")
    given = _given(attempts=arguments.attempts, tokens=arguments.tokens, micro_usd=micro_usd)
    return Budget(**given) if given else None


def _policy(arguments: AskArguments) -> Policy:
    given = dict(_pair("--policy", text) for text in arguments.policy)
    if unknown := given.keys() - Policy.model_fields.keys():
        known = ", ".join(Policy.model_fields)
        _refuse(f"--policy takes {known}, not {', '.join(sorted(unknown))}.")
    chosen = {**given, **_given(at_last=arguments.at_last)}
    for name, value in chosen.items():
        words = get_args(Policy.model_fields[name].annotation)
        if value not in words:
            option = "--at-last" if name == "at_last" else f"--policy {name}="
            _refuse(f"{option} takes {', '.join(words)}, not {value!r}.")
    return Policy.model_validate(chosen)


def _contract(text: str, registry: Registry) -> ContractRef:
    name, dot_v, digits = text.rpartition(".v")
    if dot_v and digits.isdecimal() and int(digits):
        return ContractRef(name=name, version=int(digits))
    versions = [contract.version for contract in registry if contract.name == text]
    if not versions:
        known = ", ".join(f"{contract.name}.v{contract.version}" for contract in registry)
        _refuse(f"There is no contract {text!r}; known: {known}.")
    return ContractRef(name=text, version=max(versions))


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        _refuse(f"{option} takes name=value, not {text!r}.")
    return name, value


def _value(text: str, read: Read) -> JsonValue:
    """JSON if it is JSON, else text; `@file` is what the file holds."""
    content = read(text[1:]) if text.startswith("@") else text.encode(errors="replace")
    parsed = json_text.parse(content)
    if isinstance(parsed, json_text.Parsed):
        return parsed.value
    return content.decode(errors="replace")


def _given(**options: Any) -> Mapping[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(message: str) -> Never:
    raise typer.BadParameter(message)
