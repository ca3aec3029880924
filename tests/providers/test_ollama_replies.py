"""What bodies of an Ollama server say, row by row."""

import json
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.ollama import parse_response
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Reply,
    Truncated,
    Unavailable,
)

NOTHING = Unavailable(200, ran=True)


def body(content: Any, reason: Any = "stop", **rest: Any) -> dict[str, Any]:
    return {"message": {"content": content}, "done": True, "done_reason": reason, **rest}


def facts(stop_reason: str | None = "stop", **rest: Any) -> CallFacts:
    return CallFacts(stop_reason=stop_reason, **rest)


def no_answer(stop_reason: str | None = "stop") -> Reply:
    return NoAnswer(200, facts(stop_reason))


TOOL = {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
COUNTS = {"prompt_eval_count": 1, "eval_count": 2}
ANSWERS: list[tuple[Any, Reply]] = [
    (body("hi"), Answered("hi", facts())),
    (body(""), Answered("", facts())),
    ({"message": {"content": "hi"}, "done": True}, Answered("hi", facts(None))),
    ({"message": {"content": "hi", "thinking": "hm"}, "done": True}, Answered("hi", facts(None))),
    (body("hi", **COUNTS), Answered("hi", facts(usage=Usage(input_tokens=1, output_tokens=2)))),
    (body("hi", prompt_eval_count=-1, eval_count=None), Answered("hi", facts())),
    (body("hi", model="m:latest"), Answered("hi", facts(model="m:latest"))),
    (body("{", "length"), Truncated(77, facts("length"))),
    (body("", "load"), no_answer("load")),
    (body("", "unload"), no_answer("unload")),
    (body("hi", "a new word"), no_answer(None)),
    (body("hi", ["stop"]), no_answer(None)),
    ({"message": TOOL, "done": True, "done_reason": "stop"}, no_answer()),
    ({"message": {"content": "hi"}, "done": False}, NOTHING),
    ({"message": {"content": "hi"}}, NOTHING),
    (body(None), no_answer()),
    (body(1), no_answer()),
    ({"message": "hi", "done": True}, NOTHING),
    ({"error": "went wrong"}, NOTHING),
    (None, NOTHING),
    ([], NOTHING),
]


@pytest.mark.parametrize(("document", "expected"), ANSWERS)
def test_an_answer_is_read_in_order_reason_content(document: Any, expected: Reply) -> None:
    assert parse_response(200, {}, json.dumps(document).encode(), 77) == expected
