"""Digests: SHA-256 of bytes, of texts, and of JSON values however they are spelt."""

import hashlib
from collections.abc import Mapping

import rfc8785
from msgspec.json import Encoder
from pydantic import JsonValue

_PLAIN = Encoder(order="deterministic")
_EXACT_INTEGER_MAX = 2**53 - 1  # RFC 8785 writes numbers as doubles, which are exact up to here


def canonical_digest(value: JsonValue) -> str:
    """The digest of the RFC 8785 text of a value.

    RFC 8785 has no form for integers beyond 2^53: they are carried as the text of their decimal
    digits, so that two of them that differ never share a digest. Raises for no value that
    `json_text.parse` returns.
    """
    return bytes_digest(canonical(value))


def record_digest(body: Mapping[str, JsonValue]) -> str:
    """What `hash` of a chained record says: the digest of all its other members."""
    return canonical_digest({name: value for name, value in body.items() if name != "hash"})


def canonical(value: JsonValue) -> bytes:
    """The RFC 8785 text of a value (see `canonical_digest`); most need not be written by hand."""
    if _is_plain(value):
        return _PLAIN.encode(value)
    return rfc8785.dumps(_carried(value))


def text_digest(text: str) -> str:
    """The digest of a text in UTF-8; half surrogate pairs, which providers do send, count too."""
    return bytes_digest(text.encode(errors="surrogatepass"))


def bytes_digest(data: bytes) -> str:
    """`sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _is_plain(value: JsonValue) -> bool:
    """Whether a plain encoder writes the same bytes.

    Numbers with a fraction have another form there, and names beyond ASCII may have another order.
    """
    waiting = [value]
    while waiting:
        found = waiting.pop()
        kind = type(found)
        if kind is dict:
            if not all(map(str.isascii, found)):  # type: ignore[arg-type]
                return False
            waiting.extend(found.values())  # type: ignore[union-attr]
        elif kind is list:
            waiting.extend(found)  # type: ignore[arg-type]
        elif kind is float or (kind is int and abs(found) > _EXACT_INTEGER_MAX):  # type: ignore[arg-type]
            return False
    return True


def _carried(value: JsonValue) -> JsonValue:
    match value:
        case bool():
            return value
        case int() if abs(value) > _EXACT_INTEGER_MAX:
            return str(value)
        case list():
            return [_carried(item) for item in value]
        case dict():
            return {name: _carried(member) for name, member in value.items()}
        case _:
            return value
