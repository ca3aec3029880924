"""The options of `ask`, and the Request that they make."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypedDict

from pydantic_core import to_jsonable_python

from answerbus.agent import AgentRef
from answerbus.budget import Budget
from answerbus.request import Context, Fact, Message, Policy, Request, SchemaRef

_AS_THEY_ARE = {"profile", "budget", "ttl_s", "policy"}


class JobOptions(TypedDict, total=False):
    """Keyword arguments of `Client.ask_many`; what is absent has the default of a Request."""

    profile: str
    """The name of a profile in the workers' settings."""
    budget: Budget
    """What the workflow may spend in all; the first request that names one settles that.

    Without one, the request adds three attempts to what its workflow has.
    """
    ttl_s: int
    """How long the answer is of use, in seconds from when the broker takes the request."""
    policy: Policy
    """What to do about invalid answers and refusals, and in which order to run."""
    labels: Mapping[str, str]
    """Repeated in each event about the request."""


class AskOptions(JobOptions, total=False):
    """Keyword arguments of `Client.ask`; what is absent has the default of a Request."""

    facts: Mapping[str, object] | Sequence[Fact]
    """Named data as JSON, pydantic models or dataclasses, untrusted; a `Fact` may say otherwise."""
    messages: Sequence[Message]
    """The conversation so far."""
    agent: str | AgentRef
    """The agent that works on it, in steps and with tools; an `AgentRef` says version and tools.

    Without a `budget` it is the agent's; one that names no attempts allows three.
    """
    request_id: str | None
    """Its own id, to publish it again safely; by default a new UUIDv7."""


def refuse_unknown(asking: Mapping[str, object], known: AbstractSet[str]) -> None:
    """Raises TypeError for an unknown option: a misspelt `budget` would be no budget."""
    if unknown := sorted(asking.keys() - known):
        raise TypeError(f"unexpected keyword argument: {', '.join(unknown)}")


def make_request(
    instructions: str, workflow_id: str | None, schema: SchemaRef, new_id: str, asking: AskOptions
) -> Request:
    """The request; raises pydantic's ValidationError (a ValueError) for what the wire refuses."""
    refuse_unknown(asking, AskOptions.__optional_keys__)
    fields: dict[str, Any] = {name: value for name, value in asking.items() if name in _AS_THEY_ARE}
    if (agent := asking.get("agent")) is not None:
        fields["agent"] = AgentRef(name=agent) if isinstance(agent, str) else agent
    if (request_id := asking.get("request_id")) is None:
        request_id = new_id
    return Request(
        request_id=request_id,
        workflow_id=request_id if workflow_id is None else workflow_id,
        answer_schema=schema,
        context=Context(
            instructions=instructions,
            messages=tuple(asking.get("messages", ())),
            facts=_facts(asking.get("facts", ())),
        ),
        labels=dict(asking.get("labels", {})),
        **fields,
    )


def _facts(facts: Mapping[str, object] | Sequence[Fact]) -> tuple[Fact, ...]:
    if not isinstance(facts, Mapping):
        return tuple(facts)
    return tuple(Fact(name=name, value=to_jsonable_python(value)) for name, value in facts.items())
