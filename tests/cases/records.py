"""Malformed Kafka records, made from a seed: `malformed(n, seed)` yields n of them.

Pass a valid event as `example` (value and headers as they are on the wire): it is damaged.
`expect` is "undecodable" (must end as that dead letter) or "either" (may also be accepted).
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

Headers = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    kind: str
    expect: Literal["undecodable", "either"]
    key: bytes | None
    value: bytes | None
    headers: Headers


class Example(NamedTuple):
    """A valid event: its type header names it, its value has a `workflow_id`."""

    value: dict[str, Any]
    headers: Headers


EXAMPLE = Example(
    value={
        "id": "01936f5e-7a10-7000-8000-000000000001",
        "workflow_id": "wf-1",
        "answer": {"contract": "plan_proposal", "version": 1},
        "context": {
            "instructions": "Propose a plan.",
            "facts": [{"text": "express 4 is in use", "trusted": False}],
        },
        "profile": "default",
        "budget": {"attempts": 3},
        "deadline": "2027-01-01T00:00:00Z",
    },
    headers=[
        ("ce_specversion", b"1.0"),
        ("ce_id", b"01936f5e-7a10-7000-8000-000000000001"),
        ("ce_type", b"answerbus.request.v1"),
        ("ce_source", b"urn:answerbus:test"),
        ("ce_time", b"2026-11-21T00:00:00Z"),
        ("ce_subject", b"wf-1"),
        ("content-type", b"application/json"),
    ],
)

Damage = Callable[[random.Random, Example], tuple[bytes | None, Headers]]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _with(headers: Headers, name: str, value: bytes | None) -> Headers:
    return [(n, value if n == name else v) for n, v in headers]


def _without(headers: Headers, name: str) -> Headers:
    return [(n, v) for n, v in headers if n != name]


def _value(make: Callable[[random.Random, dict[str, Any]], bytes | None]) -> Damage:
    return lambda rng, example: (make(rng, dict(example.value)), list(example.headers))


def _headers(make: Callable[[random.Random, Headers], Headers]) -> Damage:
    return lambda rng, example: (_json(example.value), make(rng, list(example.headers)))


def _truncated(rng: random.Random, value: dict[str, Any]) -> bytes:
    text = _json(value)
    return text[: rng.randrange(1, len(text))]


def _missing(rng: random.Random, value: dict[str, Any]) -> bytes:
    del value[rng.choice(["id", "workflow_id", "answer"] if "answer" in value else list(value))]
    return _json(value)


def _wrong_type(rng: random.Random, value: dict[str, Any]) -> bytes:
    value[rng.choice(list(value))] = [[]]
    return _json(value)


def _spliced(fragment: bytes) -> Callable[[random.Random, dict[str, Any]], bytes]:
    return lambda _, value: _json(value)[:-1] + b', "extra_member": ' + fragment + b"}"


UNDECODABLE: dict[str, Damage] = {
    "random_bytes": _value(lambda r, _: r.randbytes(r.randrange(1, 4096))),
    "empty_value": _value(lambda r, _: b""),
    "tombstone": _value(lambda r, _: None),
    "whitespace": _value(lambda r, _: b" \n\t" * r.randrange(1, 100)),
    "invalid_utf8": _value(lambda r, v: b'{"\xff": 1, ' + _json(v)[1:]),
    "truncated": _value(_truncated),
    "array": _value(lambda r, v: _json([v])),
    "string": _value(lambda r, v: _json(json.dumps(v))),
    "number": _value(lambda r, _: _json(r.random())),
    "null": _value(lambda r, _: b"null"),
    "missing_field": _value(_missing),
    "wrong_type": _value(_wrong_type),
    "deep_nesting": _value(_spliced(b"[" * 20_000 + b"]" * 20_000)),
    "nan": _value(_spliced(b"NaN")),
    "two_documents": _value(lambda r, v: _json(v) * 2),
    "wrong_ce_type": _headers(lambda r, h: _with(h, "ce_type", b"com.example.order.created")),
    "unknown_version": _headers(
        lambda r, h: _with(h, "ce_type", b"answerbus.request.v%d" % r.randrange(90, 99))
    ),
    "missing_ce_type": _headers(lambda r, h: _without(h, "ce_type")),
    "null_ce_type": _headers(lambda r, h: _with(h, "ce_type", None)),
    "invalid_utf8_ce_type": _headers(lambda r, h: _with(h, "ce_type", b"answerbus\xff\xfe")),
    "wrong_specversion": _headers(lambda r, h: _with(h, "ce_specversion", b"0.3")),
    "no_headers": _headers(lambda r, h: []),
}
EITHER: dict[str, Damage] = {
    "extra_field": _value(_spliced(b'"x"')),
    "duplicate_key": _value(_spliced(b'1, "workflow_id": "wf-2"')),
    "gigantic_number": _value(_spliced(b"9" * 10_000)),
    "byte_order_mark": _value(lambda r, v: b"\xef\xbb\xbf" + _json(v)),
    "wrong_content_type": _headers(lambda r, h: _with(h, "content-type", b"application/avro")),
    "invalid_utf8_header": _headers(lambda r, h: [*h, ("x-note", r.randbytes(32) + b"\xff")]),
    "huge_header": _headers(lambda r, h: [*h, ("x-big", b"a" * 300_000)]),
    "many_headers": _headers(lambda r, h: [*h, *((f"x-{i}", b"v") for i in range(2_000))]),
    "duplicate_header": _headers(lambda r, h: [*h, ("ce_type", b"answerbus.result.v1")]),
}


def malformed(n: int, seed: int, example: Example = EXAMPLE) -> Iterator[Record]:
    """Yields n records; every kind comes up once before any comes up twice."""
    rng = random.Random(seed)
    kinds = sorted(UNDECODABLE | EITHER)
    for i in range(n):
        if i % len(kinds) == 0:
            rng.shuffle(kinds)
        kind = kinds[i % len(kinds)]
        value, headers = (UNDECODABLE | EITHER)[kind](rng, example)
        key = rng.choice(
            [None, b"", rng.randbytes(16), b"other", str(example.value["workflow_id"]).encode()]
        )
        yield Record(kind, "undecodable" if kind in UNDECODABLE else "either", key, value, headers)
