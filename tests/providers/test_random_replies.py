"""No body and no header that a provider may send makes the reader of its replies raise."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.worker.adapters.providers.apis import ollama
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.apis.response_fields import RETRY_AFTER_S_MAX, retry_after_s
from services.worker.core.attempt.reply import Answered, CallFacts, Reply
from tests.cost.budget import spent
from tests.fuzz.replies import LIMIT, READERS

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
# By API: the members that its reader looks at, and the words that it knows as their values.
KNOWN: Mapping[str, tuple[str, str]] = {
    "openai": (
        "choices message content refusal finish_reason usage error code",
        "stop length content_filter",
    ),
    "openai-responses": (
        "status output type content text refusal incomplete_details reason",
        "completed incomplete failed message",
    ),
    "anthropic": (
        "content type text stop_reason stop_details usage error details",
        "text refusal end_turn max_tokens",
    ),
    "gemini": (
        (
            "candidates content parts text finishReason promptFeedback blockReason error details "
            "usageMetadata violations quotaId retryDelay thought"
        ),
        "STOP",
    ),
    "bedrock": (
        "output message content text stopReason usage metrics error __type",
        "end_turn max_tokens guardrail_intervened",
    ),
    "ollama": ("message content done done_reason tool_calls eval_count error model", "stop"),
}


def documents(names: str, words: str) -> st.SearchStrategy[object]:
    known, values = st.sampled_from(names.split()), st.sampled_from(words.split())
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | values,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(known, inner, max_size=4),
        max_leaves=12,
    )


@pytest.mark.parametrize("api", READERS)
@given(st.data(), st.integers(100, 999), st.text())
def test_no_body_and_no_header_makes_a_reader_raise(
    api: str, data: st.DataObject, status: int, header: str
) -> None:
    read, body = READERS[api], json.dumps(data.draw(documents(*KNOWN[api]))).encode()
    headers = {"retry-after": header, "date": header, "x-request-id": header}

    assert isinstance(read.parse_response(200, headers, body, 77), get_args(Reply))
    assert isinstance(read.parse_error(status, headers, body, NOW), get_args(Reply))
    assert 0 <= (retry_after_s(headers, NOW) or 0) <= RETRY_AFTER_S_MAX


@pytest.mark.parametrize("api", READERS)
@given(st.binary())
def test_no_bytes_make_a_reader_raise(api: str, body: bytes) -> None:
    assert isinstance(READERS[api].parse_response(200, {}, body, 77), get_args(Reply))
    assert isinstance(READERS[api].parse_error(400, {}, body, NOW), get_args(Reply))


@pytest.mark.parametrize("end", [b'""', b'"\\ud83d"'], ids=["whole", "half a character"])
@pytest.mark.parametrize("digits", [300, 4_300])
def test_long_numbers_in_a_reply_hold_no_event_loop(digits: int, end: bytes) -> None:
    """Each takes a time that grows with the square of its digits."""
    size = ExchangeLimits().response_bytes_max
    numbers = b",".join([b"7" * digits] * (size // (digits + 1) - 1))
    answer = b'{"content":"yes"}'
    body = b'{"done":true,"done_reason":"stop","message":%b,"x":[%b,%b]}' % (answer, numbers, end)
    read = partial(ollama.parse_response, 200, {}, body, LIMIT)

    assert read() == Answered("yes", CallFacts(stop_reason="stop"))
    assert spent(read).is_below(0.015)
