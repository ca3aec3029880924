"""A tool server with FastStream, and without our library: what docs/wire.md says is enough."""

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import Any

from faststream import FastStream
from faststream.kafka import KafkaBroker

PREFIX = os.environ.get("TOPIC_PREFIX", "answerbus")
SCHEMA = {"type": "object", "properties": {"phrase": {"type": "string"}}, "required": ["phrase"]}
TOOL = {"name": "echo", "description": "Say a phrase again.", "args_schema": SCHEMA}
CARD = {"kind": "toolset", "toolset": "fecho", "tools": [TOOL]}

broker = KafkaBroker(os.environ.get("KAFKA", "localhost:9092"), acks="all")
app = FastStream(broker)


@app.after_startup
async def announce() -> None:
    await broker.publish(json.dumps(CARD), topic=f"{PREFIX}.toolsets.fecho.v1", key=b"fecho")


def outcome_of(call: dict[str, Any]) -> dict[str, Any]:
    if call["tool"] != "echo":
        return {"kind": "error", "code": "unknown_tool"}
    if not isinstance(phrase := call["args"].get("phrase"), str):
        return {"kind": "error", "code": "invalid_args"}
    return {"kind": "ok", "value": phrase}


@broker.subscriber(
    f"{PREFIX}.tools.fecho.v1",
    group_id=f"{PREFIX}.tools.fecho",
    auto_offset_reset="earliest",
    isolation_level="read_committed",
    decoder=lambda message: message.body,
)
async def serve(body: bytes) -> None:
    try:
        call = json.loads(body)
        is_mine = call["kind"] == "tool_call" and call["toolset"] == "fecho"
        is_late = is_mine and datetime.fromisoformat(call["expires_at"]) <= datetime.now(UTC)
    except (KeyError, TypeError, ValueError):
        return
    if is_mine and not is_late:
        reply, result = call["reply"], {"kind": "tool_result", "outcome": outcome_of(call)}
        result |= {name: call[name] for name in ("call_id", "workflow_id")}
        result |= {"token": reply["token"]}
        await broker.publish(
            json.dumps(result),
            topic=reply["topic"],
            partition=reply["partition"],
            key=reply["key"].encode(),
        )


asyncio.run(app.run())
