"""The bus as an AsyncAPI 3 document, generated from the topic table and the event schemas; pure."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from answerbus.envelope import SOURCES
from answerbus.schema_export import event_models, event_schema
from answerbus.topics import EVERY_TOPIC, PARTITIONS_DEFAULT, TOPIC_OF_KIND, Key, Topic

Schema = dict[str, Any]

_BINDING = "0.5.0"  # of AsyncAPI's words for Kafka
_TEXT: Schema = {"type": "string"}
_WITH_CONTRACT = frozenset({"request", "result", "unvalidated_result", "refusal", "retry_request"})
_BY_ANY_CLIENT = frozenset(
    {
        "request",
        "tool_result",
        "tool_progress",
        "tool_reconciled",
        "toolset",
        "tool_accepted",
        "approval",
        "input",
        "cancel",
    }
)
_WITH_VARIANT = frozenset({"result", "refusal"})
_TERMINAL = frozenset({"result", "unvalidated_result", "refusal", "dead_letter"})
_KEYS: Mapping[Key, str] = {
    "workflow_id": "The `workflow_id`.",
    "workflow_id or budget": "The `workflow_id`, or the `budget` that the event is about.",
    "request": "`<request_id>@<workflow_id>`.",
    "dead_letter_id": "The `dead_letter_id`.",
    "ledger": (
        "`account:<account_id>`, `closed:<request_id>@<workflow_id>`, `closed:@<origin>`, `lane` "
        "or `skipped:@<offset>`."
    ),
    "call_id": "The `call_id`.",
    "toolset": "The name of the toolset.",
    "tool": "The qualified name of the tool, such as `orders.refund`.",
    "run": (
        "`<request_id>`, `<request_id>/<step>` or `<request_id>/<step>/<call>` with "
        "`@<workflow_id>` behind it, or `<request_id>/cancel/<workflow_id>`."
    ),
}
_ABOUT = """\
Requests to language models and their typed answers, over Kafka.

Each operation is seen from the party in its tag. Bodies are complete in themselves; headers are \
CloudEvents 1.0 in binary mode, and optional on requests. Read with `isolation.level=\
read_committed`. Producers name the partition: murmur2(workflow_id) % partitions. The promises are \
in docs/guarantees.md, the whole contract is in docs/wire.md."""


@cache
def text() -> str:
    """The document as a file, always the same for the same code; making it takes 0.3 s."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def document() -> Schema:
    """The document for the default topic prefix and number of partitions."""
    schemas: Schema = {}
    messages = {kind: _message(kind, schemas) for kind in sorted(event_models())}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "answerbus",
            "version": "1",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {_name(topic): _channel(topic) for topic in EVERY_TOPIC},
        "operations": dict(_operations()),
        "components": {"messages": messages, "schemas": dict(sorted(schemas.items()))},
    }


def _channel(topic: Topic) -> Schema:
    settings: Schema = {
        name: int(value) if value.isdigit() else value for name, value in topic.settings().items()
    }
    settings["cleanup.policy"] = topic.cleanup.split(",")
    return {
        "address": topic.full_name(),
        "summary": topic.summary,
        **_parameters(topic),
        "messages": {kind: {"$ref": f"#/components/messages/{kind}"} for kind in topic.events},
        "bindings": {
            "kafka": {
                "topic": topic.full_name(),
                "partitions": topic.partitions or PARTITIONS_DEFAULT,
                "topicConfiguration": settings,
                "bindingVersion": _BINDING,
            }
        },
    }


def _parameters(topic: Topic) -> Schema:
    if "{toolset}" not in topic.name:
        return {}
    return {"parameters": {"toolset": {"description": "The name of the toolset."}}}


def _operations() -> Iterator[tuple[str, Schema]]:
    for topic in EVERY_TOPIC:
        for party in topic.writers:
            yield f"{party}-writes-{_name(topic)}", _operation("send", party, topic)
        for party in topic.readers:
            yield f"{party}-reads-{_name(topic)}", _operation("receive", party, topic)


def _name(topic: Topic) -> str:
    """That of the channel: one for the calls of all toolsets, whose address has a parameter."""
    return topic.name.partition(".")[0]


def _operation(action: Literal["send", "receive"], party: str, topic: Topic) -> Schema:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{_name(topic)}"},
        "tags": [{"name": party}],
    }


def _message(kind: str, schemas: Schema) -> Schema:
    topic = TOPIC_OF_KIND[kind]
    payload: Schema = dict(event_schema(kind, event_models()[kind]))
    definitions: Schema = payload.pop("$defs", {})
    names = _names(kind, definitions, schemas)
    schemas |= {names[name]: _placed(schema, names) for name, schema in definitions.items()}
    return {
        "name": f"answerbus.{kind}.v1",
        "title": payload.pop("title"),
        "summary": payload.pop("description", ""),
        "contentType": "application/json",
        "headers": _headers(kind),
        "payload": _placed(payload, names),
        "bindings": {
            "kafka": {
                "key": {**_TEXT, "description": _KEYS[topic.key]},
                "bindingVersion": _BINDING,
            }
        },
    }


def _names(kind: str, definitions: Mapping[str, Any], schemas: Schema) -> dict[str, str]:
    """Names of definitions in the document; those of requests are laxer than others'."""
    plain = {name: name for name in definitions}
    same = all(
        schemas.get(name) in (None, _placed(schema, plain)) for name, schema in definitions.items()
    )
    return plain if same else {name: f"{kind}.{name}" for name in definitions}


def _placed(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema in AsyncAPI's words: draft 07, and what it refers to is in the document.

    Each variant's constant gives the tag of a union, and a discriminator is another thing there.
    """
    match schema:
        case {"$ref": str(reference), **more}:
            name = names[reference.removeprefix("#/$defs/")]
            return {"$ref": f"#/components/schemas/{name}", **more}
        case {"prefixItems": items, **more}:
            return {"items": _placed(items, names), "additionalItems": False, **more}
        case dict():
            return {
                name: _placed(inner, names)
                for name, inner in schema.items()
                if name not in {"$schema", "$id", "discriminator"}
            }
        case list():
            return [_placed(inner, names) for inner in schema]
        case _:
            return schema


def _headers(kind: str) -> Schema:
    """CloudEvents' attributes, and ours; clients name their own source, and may name a schema."""
    is_by_any = kind in _BY_ANY_CLIENT
    ours = {
        "ce_source": {**_TEXT, "enum": list(SOURCES)},
        "ce_dataschema": {**_TEXT, "const": f"urn:answerbus:event:{kind}.v1"},
        "content-type": {**_TEXT, "const": "application/json"},
    }
    required = {
        "ce_specversion": {**_TEXT, "const": "1.0"},
        "ce_id": _TEXT,
        "ce_type": {**_TEXT, "const": f"answerbus.{kind}.v1"},
        **(dict.fromkeys(ours, _TEXT) if is_by_any else ours),
    }
    names = ["ce_time", "ce_subject", "ce_partitionkey", "ce_requestid"]
    names += ["ce_contract"] if kind in _WITH_CONTRACT else []
    names += ["ce_variant"] if kind in _WITH_VARIANT else []
    names += ["ce_parentid"] if kind in _TERMINAL else []
    names += ["ce_cause"] if kind == "dead_letter" else []
    names += ["answerbus_forwarded"] if kind == "request" else []
    optional = dict.fromkeys([*names, "traceparent", "tracestate"], _TEXT)
    return {
        "type": "object",
        "properties": required | optional,
        "required": [] if is_by_any else list(required),
    }
