"""Whether a recorded request would go the same way with today's definition and contracts."""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from answerbus.cassette import RecordedRequest
from answerbus.difference import FirstDifference, first_difference
from answerbus.failure import Invalid
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from services.worker.planning.recorded_exchanges import (
    Exchange,
    Unplayable,
    exchanges_of,
    prompt_difference,
)


def changes_of(
    recorded: RecordedRequest, definition: AgentDefinition | None, registry: Registry
) -> Iterator[str]:
    """The first place where it goes another way, with the difference; nothing if there is none."""
    was = exchanges_of(recorded, recorded.definition, registry)
    now = exchanges_of(recorded, definition, registry)
    if isinstance(was, Unplayable) or isinstance(now, Unplayable):
        yield was.text if isinstance(was, Unplayable) else now.text  # type: ignore[union-attr]
        return
    for one, other in zip(was, now, strict=True):
        if change := _change(one, other):
            yield f"{one.place}: {change}"
            return


def _change(was: Exchange, now: Exchange) -> FirstDifference | str | None:
    """Where the definition differs that is nearer than where the prompt does."""
    if was.key == now.key and _rules(was) == _rules(now):
        read = now.resolved.read(_parsed(now.reply))
        if isinstance(read, Invalid) and now.is_accepted:
            return f"its answer is not valid: {read.problems[0].path}: {read.problems[0].expected}"
        return None
    of_definition = first_difference(_definition(was), _definition(now))
    return of_definition or prompt_difference(was.prompt, now.prompt)


def _rules(exchange: Exchange) -> JsonValue:
    """The rules of the tools that the answer calls: they decide on the calls, unseen by a model."""
    answer = _parsed(exchange.reply)
    actions = answer.get("actions") if isinstance(answer, dict) else None
    listed = actions if isinstance(actions, list) else []
    called = {action.get("name") for action in listed if isinstance(action, dict)}
    tools = exchange.definition.tools if exchange.definition else ()
    return [tool.model_dump(mode="json") for tool in tools if tool.name in called]


def _definition(exchange: Exchange) -> JsonValue:
    found = exchange.definition
    return found and found.model_dump(mode="json")  # type: ignore[return-value]


def _parsed(reply: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(reply)
    except ValueError:
        return reply
    return found
