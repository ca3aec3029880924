"""A request whose schema is known is read as any other: the same request, digest and faults."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, get_args

import pytest

from answerbus.envelope import ReceivedRequest, Undecodable
from answerbus.limits import REQUEST_BYTES_MAX, REQUEST_VALUES_MAX
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.request.known_schemas import TEXT_BYTES_MIN, KnownSchemas
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import body

SCHEMA = {
    "type": "object",
    "properties": {f"Größe {n}": {"type": "number", "minimum": n / 7} for n in range(60)},
    "required": ["Größe 1"],
}
TEXT = json.dumps(SCHEMA)
Change = Callable[[str], str]


def request(schema: object = SCHEMA, **members: Any) -> str:
    ref = {"kind": "inline", "name": "big", "json_schema": schema}
    return json.dumps({**members, **body(answer_schema=ref)})


def put(old: str, new: str) -> Change:
    return lambda text: text.replace(old, new, 1)


CHANGES: dict[str, Change] = {
    "none": lambda text: text,
    "another context": put("Answer", "Say nothing"),
    "spaces around": put(f'"json_schema": {TEXT}', f'"json_schema" \n:\t{TEXT}\r '),
    "before, in an unknown member": put("{", f'{{"x": {TEXT}, '),
    "before, as a text": put("{", f'{{"x": {json.dumps(TEXT)}, '),
    "a text that begins like it": put("{", f'{{"x": {TEXT[:99]}"}}}}, '),
    "behind, in an unknown member": lambda text: f'{text[:-1]}, "x": {TEXT}}}',
    "twice": put(f'"json_schema": {TEXT}', f'"json_schema": {TEXT}, "json_schema": {TEXT}'),
    "two references": lambda text: f'{text[:-1]}, "answer_schema": {{"json_schema": {TEXT}}}}}',
    "an escaped name": put('"json_schema"', '"json_schem\\u0061"'),
    "deeper": put(TEXT, f'{{"not": {TEXT}}}'),
    "as a list": put(TEXT, f"[{TEXT}]"),
    "of a contract": put('"inline"', '"contract"'),
    "no kind": put('"kind": "request"', '"kind": "x"'),
    "too many values": put("{", f'{{"x": [{"0," * REQUEST_VALUES_MAX}0], '),
    "too many bytes": put("{", f'{{"x": "{"x" * REQUEST_BYTES_MAX}", '),
    "cut off": lambda text: text[:-9],
    "more behind": lambda text: text + "x",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_read_is_the_same_with_a_known_schema(change: Change) -> None:
    known = KnownSchemas()
    known.decode(request().encode())
    value = change(request()).encode()

    for headers in ([], [("ce_type", b"other")]):
        assert known.decode(value, headers) == KnownSchemas().decode(value, headers)


def test_requests_with_one_schema_share_its_value() -> None:
    known = KnownSchemas()
    known.decode(request().encode())

    first, second = (known.decode(request(number=n).encode())[0] for n in (1, 2))

    assert isinstance(first, ReceivedRequest)
    assert isinstance(second, ReceivedRequest)
    assert first.body != second.body
    schemas = [it.request.answer_schema for it in (first, second)]
    assert isinstance(schemas[0], InlineRef)
    assert isinstance(schemas[1], InlineRef)
    assert schemas[0].json_schema is schemas[1].json_schema


def test_nobody_changes_the_value_that_is_shared() -> None:
    received, _ = KnownSchemas().decode(request().encode())
    assert isinstance(received, ReceivedRequest)
    ref = received.request.answer_schema
    assert isinstance(ref, InlineRef)
    before = deepcopy(ref.json_schema)

    for dialect in get_args(DialectName):
        SchemaCache(Registry([])).compiled(ref, dialect)

    assert ref.json_schema == before == SCHEMA


def test_so_many_bytes_of_texts_are_known() -> None:
    known = KnownSchemas(bytes_max=3 * len(TEXT))
    for number in range(9):
        known.decode(request({**SCHEMA, "minProperties": number % 5}).encode())

    assert known.texts_bytes <= 3 * len(TEXT)
    assert isinstance(known.decode(request().encode())[0], ReceivedRequest)
    large = request({"description": "x" * 4 * len(TEXT)}).encode()
    assert isinstance(known.decode(large)[0], ReceivedRequest)
    assert 0 < known.texts_bytes <= 3 * len(TEXT)


def test_a_short_schema_is_not_kept() -> None:
    known = KnownSchemas()
    known.decode(request({"description": "x" * (TEXT_BYTES_MIN // 2)}).encode())
    assert known.texts_bytes == 0


def test_a_known_schema_costs_little() -> None:
    large = {"properties": {f"p{n}": {"type": "string", "title": "x" * 99} for n in range(400)}}
    value, known = request(large).encode(), KnownSchemas()
    known.decode(value)
    with cpu_time() as first:
        KnownSchemas().decode(value)
    with cpu_time() as again:
        known.decode(value)

    assert again.spent_s < first.spent_s / 2


def test_what_is_nested_without_end_is_refused() -> None:
    text = request().replace(TEXT, '{"a":' * 9_000 + "0" + "}" * 9_000)
    decoded, _ = KnownSchemas().decode(text.encode())
    assert isinstance(decoded, Undecodable)
