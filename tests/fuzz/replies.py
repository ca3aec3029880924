"""Responses of providers: each is read as one Reply, whose texts an event can carry."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from answerbus.limits import REASON_BYTES_MAX
from services.worker.adapters.providers.apis import anthropic as anthropic_replies
from services.worker.adapters.providers.apis import bedrock as bedrock_replies
from services.worker.adapters.providers.apis import gemini as gemini_replies
from services.worker.adapters.providers.apis import ollama as ollama_replies
from services.worker.adapters.providers.apis import openai_replies, openai_responses
from services.worker.core.attempt import reply as replies
from services.worker.core.attempt.check import check
from services.worker.core.attempt.reply import Answered, Refused, Reply, Truncated
from tests.fuzz.target import Target
from tests.providers.apis import APIS
from tests.unit.worker import builders

Read = Callable[[int, Mapping[str, str], bytes, int], Reply]
ReadError = Callable[[int, Mapping[str, str], bytes, datetime], Reply]
LIMIT = 77
HEADERS_MAX = 32


@dataclass(frozen=True, slots=True)
class Api:
    """How one API's responses are read."""

    parse_response: Read
    parse_error: ReadError


READERS = {
    "openai": Api(openai_replies.parse_response, openai_replies.parse_error),
    "openai-responses": Api(openai_responses.parse_response, openai_replies.parse_error),
    "anthropic": Api(anthropic_replies.parse_response, anthropic_replies.parse_error),
    "gemini": Api(gemini_replies.parse_response, gemini_replies.parse_error),
    "bedrock": Api(bedrock_replies.parse_response, bedrock_replies.parse_error),
    "ollama": Api(ollama_replies.parse_response, ollama_replies.parse_error),
}


def split(data: bytes) -> tuple[str, int, Mapping[str, str], bytes]:
    """API and status, headers, body: the first line, a line each, an empty line, the rest."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    name, _, code = first.partition(" ")
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else 200
    pairs = [line.partition(":") for line in lines[:HEADERS_MAX]]
    return name, status, {name.strip().lower(): value.strip() for name, _, value in pairs}, body


def check_reply(data: bytes) -> None:
    name, status, headers, body = split(data)
    api = READERS.get(name)
    if api is None:
        return
    if 200 <= status < 300:
        reply = api.parse_response(status, headers, body, LIMIT)
    else:
        reply = api.parse_error(status, headers, body, builders.NOW)
    read: object = reply
    assert isinstance(read, get_args(Reply))
    facts = replies.facts_of(reply)
    for text in (facts.model, facts.request_id, facts.stop_reason):
        assert text is None or text.encode() is not None
    match reply:
        case Answered(content=content):
            plan = builders.plan()
            check(content, plan.schema, plan.wire)
        case Refused(reason=reason):
            assert len(reason.encode()) <= REASON_BYTES_MAX
            assert reply.failure.kind
        case Truncated(limit=limit):
            assert limit == LIMIT
        case replies.Rejected(code=code):
            assert code is None or code.encode() is not None
        case replies.Throttled(retry_after_s=delay_s):
            assert delay_s is None or 0 <= delay_s < float("inf")
        case replies.NoAnswer() | replies.Unavailable() | replies.TimedOut():
            assert reply.failure.kind


def seeds() -> Sequence[bytes]:
    error = json.dumps({"error": {"code": "insufficient_quota", "message": "no", "type": "x"}})
    return [
        f"{api.name} {rest}".encode()
        for api in APIS
        for rest in (
            f"200\n\n{json.dumps(api.good)}",
            f"429\nretry-after: 3\n\n{error}",
            f"400\n\n{error}",
            "503\nretry-after: Sun, 22 Nov 2026 10:00:00 GMT\n\n",
        )
    ]


TARGET = Target("replies", check_reply, seeds)
