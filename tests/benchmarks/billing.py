"""How the stub bills: of prompts that begin alike, it reads whole blocks of tokens from a cache."""

import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

BYTES_PER_TOKEN = 4
BLOCK_TOKENS = 128
CACHED_TOKENS_MIN = 1_024  # a shorter beginning is not looked up
WRONG = '{"answer": {"kind": "nonsense"}}'  # what a part of the first calls is answered with


@dataclass(frozen=True, slots=True)
class Prices:
    """What the stub takes for a token, in millionths of a dollar, and how often it is wrong."""

    read: int = 8
    cached: int = 1
    written: int = 32
    wrong_share: float = 0.2  # of first calls


@dataclass(slots=True)
class Bill:
    """All that was billed so far; a block of a prompt is known by all that is before it."""

    prices: Prices
    answer: str
    read: int = 0
    cached: int = 0
    micro_usd: int = 0
    _known: set[bytes] = field(default_factory=set)
    _calls: Counter[bytes] = field(default_factory=Counter)

    def completion(self, body: bytes, call: bytes) -> bytes:
        """What a request body is answered with; `call` is the request's id."""
        self._calls[call] += 1
        is_first = self._calls[call] == 1
        is_wrong = is_first and zlib.crc32(call) % 1_000 < 1_000 * self.prices.wrong_share
        content = WRONG if is_wrong else self.answer
        usage = self._usage(_prompt(json.loads(body)), content)
        message = {"role": "assistant", "content": content, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {"id": "chatcmpl-stub", "object": "chat.completion", "model": "stub"}
        return json.dumps({**completion, "choices": [choice], "usage": usage}).encode()

    def _usage(self, prompt: bytes, content: str) -> dict[str, Any]:
        read, written = len(prompt) // BYTES_PER_TOKEN, len(content) // BYTES_PER_TOKEN
        cached = self._cached(prompt)
        prices = self.prices
        self.read, self.cached = self.read + read, self.cached + cached
        self.micro_usd += (read - cached) * prices.read + cached * prices.cached
        self.micro_usd += written * prices.written
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def _cached(self, prompt: bytes) -> int:
        """The tokens of whole blocks at its beginning that were read before; all are kept."""
        size, known, is_known = BLOCK_TOKENS * BYTES_PER_TOKEN, 0, True
        beginning = sha256()
        for at in range(0, len(prompt) - size + 1, size):
            beginning.update(prompt[at : at + size])
            block = beginning.digest()
            is_known = is_known and block in self._known
            known += is_known
            self._known.add(block)
        tokens = known * BLOCK_TOKENS
        return tokens if tokens >= CACHED_TOKENS_MIN else 0


def _prompt(body: dict[str, Any]) -> bytes:
    """All that the model reads, in the order in which it does: the schema first."""
    form = body.get("response_format", {})
    texts = [json.dumps(form), *(message["content"] for message in body["messages"])]
    return "\n".join(texts).encode()
