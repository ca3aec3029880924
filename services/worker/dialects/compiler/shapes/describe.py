"""Descriptions: adds one to a shape, and finds those that a wire schema cannot hold."""

import json
from collections.abc import Iterator
from dataclasses import replace

from pydantic import JsonValue

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    Never,
    Object,
    Plain,
    Ref,
    Shape,
    Text,
    Union,
)

_FOLLOWS = "What parts of the answer are, by their place in the schema that was asked for:\n"


def joined(*texts: str) -> str:
    """Several descriptions as one, each on lines of its own; none that another says already."""
    whole = ""
    for text in texts:
        if text and _as_lines(text) not in _as_lines(whole):
            whole = f"{whole}\n{text}" if whole else text
    return whole


def described(shape: Shape, text: str) -> Shape:
    """The shape with a description before its own."""
    if not text:
        return shape
    match shape:
        case Plain():
            own = shape.schema.get("description")
            words = joined(text, own if isinstance(own, str) else "")
            return replace(shape, schema=shape.schema | {"description": words})
        case Union():
            fallback = described(shape.fallback, text)
            words = joined(text, shape.description)
            return replace(shape, description=words, fallback=fallback)
        case Text() | Array() | Object() | Ref():
            return replace(shape, description=joined(text, shape.description))
        case Never():
            return shape


# As large as a request's schema with room for the pointers; the real ones come to half of that.
DESCRIPTIONS_BYTES_MAX = 128 * 1024


def instructions(lost: dict[str, str]) -> str:
    """Descriptions as a part of the prompt; empty where none is lost."""
    return _FOLLOWS + json.dumps(lost, ensure_ascii=False) if lost else ""


def lost_descriptions(
    document: Document, wire: JsonObject, without_place: frozenset[str]
) -> dict[str, str]:
    """What the schema says of its parts and the wire schema does not, by JSON pointer.

    As far as there is room for them. Nothing is lost that is in the hint of a place for JSON
    text. `without_place` are texts that one of several places may have lost.
    """
    kept = list(dict.fromkeys(_texts(wire)))
    exactly, lines = {*kept}, _as_lines(*kept)
    doubtful = _as_lines(*without_place)
    lost: dict[str, str] = {}
    room = DESCRIPTIONS_BYTES_MAX
    for path, text in _stated(document):
        is_described = text in exactly or any(form in lines for form in _forms(text))
        if is_described and _as_lines(text) not in doubtful:
            continue
        room -= len(path.encode(errors="surrogatepass"))
        room -= len(text.encode(errors="surrogatepass"))
        if room < 0:
            break
        lost[path] = text
    return lost


def _as_lines(*texts: str) -> str:
    return "\n".join(["", *texts, ""])


def _forms(text: str) -> Iterator[str]:
    """The form of a description among others, in a schema inside a hint, and in one inside that."""
    yield _as_lines(text)
    inner = '"description":' + json.dumps(text, ensure_ascii=False)
    yield inner
    yield json.dumps(inner, ensure_ascii=False)[1:-1]


def _texts(schema: JsonValue) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case dict() as found:
                text = found.get("description")
                if isinstance(text, str):
                    yield text
                waiting.extend(found.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass


def _stated(document: Document) -> Iterator[tuple[str, str]]:
    """Each description of what an answer can reach, with a JSON pointer to its schema."""
    applied = {id(schema) for schema in document.applied()}
    for path, schema in document.schemas():
        text = schema.get("description")
        if id(schema) in applied and isinstance(text, str) and text:
            yield path, text
