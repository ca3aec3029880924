"""The description of an agent's tools for its model, beside their schemas; equal in all steps."""

import json

from answerbus.private.runs import AgentDefinition, ToolDefinition
from answerbus.request import Fact
from services.worker.core.json_schema.keywords import JsonObject


def described_tools(definition: AgentDefinition) -> tuple[Fact, ...]:
    """Descriptions are written by the owner of the tool: data behind a fence, and no rule."""
    return tuple(map(_described, definition.tools))


def _described(tool: ToolDefinition) -> Fact:
    texts: JsonObject = {"description": tool.card.description}
    if args := _descriptions(tool.card.args_schema):
        texts["args"] = args
    # As a prompt shows a JSON value, written once for all steps.
    return Fact(name=f"tool {tool.name}", value=json.dumps(texts, ensure_ascii=False, indent=1))


def _descriptions(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    found: JsonObject = {}
    for name, property_ in properties.items() if isinstance(properties, dict) else ():
        text = property_.get("description") if isinstance(property_, dict) else None
        if isinstance(text, str):
            found[name] = text
    return found
