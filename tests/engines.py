"""Sentences drawn by chance from the grammars that vLLM's engines make of a schema."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from llguidance import LLMatcher, LLTokenizer
from pydantic import JsonValue

SENTENCES = 20
_BYTES_MAX = 2_000  # of one sentence; one that has not ended by then is dropped
_BYTES = 256  # each is a token here, and what comes behind them ends a sentence
_CLOSING = frozenset(b'"]}')
_OFTEN = 40  # times as likely as another byte, so that texts, lists and objects come to an end
_LLGUIDANCE = LLTokenizer("byte")


class RefusedError(Exception):
    """An engine takes no such schema: vLLM would refuse the request."""


def from_llguidance(schema: JsonValue) -> Iterator[str]:
    grammar = LLMatcher.grammar_from_json_schema(
        json.dumps(schema), defaults={"whitespace_flexible": False}
    )
    matcher = LLMatcher(_LLGUIDANCE, grammar, log_level=0)
    if matcher.is_error():
        raise RefusedError(matcher.get_error())

    def allowed() -> list[int]:
        return [token for token, bias in enumerate(matcher.compute_logit_bias()) if bias]

    return _sentences(matcher.reset, allowed, matcher.consume_token)


def from_xgrammar(xgrammar: Any, numpy: Any, schema: JsonValue) -> Iterator[str]:
    tokens = [bytes([byte]) for byte in range(_BYTES)] + [b"</s>"]
    known = xgrammar.TokenizerInfo(tokens, stop_token_ids=[_BYTES])
    compiler = xgrammar.GrammarCompiler(known, max_threads=1)
    try:
        made = compiler.compile_json_schema(json.dumps(schema), any_whitespace=False)
    except Exception as error:
        raise RefusedError(str(error)) from error
    matcher = xgrammar.GrammarMatcher(made)
    mask = numpy.zeros((1, len(tokens) // 32 + 1), dtype="int32")

    def allowed() -> list[int]:
        mask.fill(-1)
        matcher.fill_next_token_bitmask(mask)
        return [token for token in range(len(tokens)) if mask[0, token // 32] >> token % 32 & 1]

    return _sentences(matcher.reset, allowed, matcher.accept_token)


def _sentences(
    reset: Callable[[], object], allowed: Callable[[], list[int]], take: Callable[[int], bool]
) -> Iterator[str]:
    chance = random.Random(1)
    for _ in range(SENTENCES):
        reset()
        sentence = _walk(allowed, take, chance)
        if sentence is not None:
            yield sentence


def _walk(
    allowed: Callable[[], list[int]], take: Callable[[int], bool], chance: random.Random
) -> str | None:
    """Byte by byte, each of those that the engine's mask allows."""
    written = bytearray()
    while len(written) < _BYTES_MAX:
        tokens = allowed()
        may_end = any(token >= _BYTES for token in tokens)
        following = [token for token in tokens if token < _BYTES]
        if may_end and (not following or chance.random() < 0.5):
            return written.decode(errors="replace")  # models write no other bytes
        weights = [_OFTEN if token in _CLOSING else 1 for token in following]
        (token,) = chance.choices(following, weights)
        assert take(token)
        written.append(token)
    return None
