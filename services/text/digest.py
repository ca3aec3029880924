"""Digests: SHA-256 of bytes, of texts, and of JSON values however they are spelt."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw
from msgspec.json import Encoder
from pydantic import JsonValue

from answerbus.wire import bytes_digest

_SORTING, _AS_SORTED = Encoder(order="deterministic"), Encoder()
_SPELT_ALIKE = {str, bool, type(None)}  # by all encoders
_EXACT_INTEGER_MAX = 2**53 - 1  # RFC 8785 writes numbers as doubles, which are exact up to here


def canonical_digest(value: JsonValue) -> str:
    """The digest of the RFC 8785 text of a value.

    RFC 8785 has no form for integers beyond 2^53: they are carried as the text of their decimal
    digits, so that two of them that differ never share a digest. Raises for no value that
    `json_text.parse` returns.
    """
    return bytes_digest(canonical(value))


def record_digest(body: Mapping[str, JsonValue]) -> str:
    """The `hash` of a chained record: the digest of all its other members."""
    return canonical_digest({name: value for name, value in body.items() if name != "hash"})


def canonical(value: JsonValue) -> bytes:
    """The RFC 8785 text of a value (see `canonical_digest`)."""
    return _SORTING.encode(value) if _is_plain(value) else _AS_SORTED.encode(_carried(value))


def canonical_members(value: Mapping[str, JsonValue]) -> Mapping[str, bytes]:
    """The RFC 8785 text of each member of an object."""
    return {name: canonical(inner) for name, inner in value.items()}


def members_digest(members: Mapping[str, bytes]) -> str:
    """The `canonical_digest` of the object with these `canonical_members`; names are ASCII."""
    pairs = (b'"%b":%b' % (name.encode("ascii"), members[name]) for name in sorted(members))
    return bytes_digest(b"{%b}" % b",".join(pairs))


def text_digest(text: str) -> str:
    """The digest of a text in UTF-8; half surrogate pairs, which providers do send, count too."""
    return bytes_digest(text.encode(errors="surrogatepass"))


def _is_plain(value: JsonValue) -> bool:
    """Whether a plain encoder writes the same bytes.

    Numbers with a fraction have another form there, and some names have another order.
    """
    waiting = [value]
    while waiting:
        found = waiting.pop()
        kind = type(found)
        if kind is dict:
            for name, inner in found.items():  # type: ignore[union-attr]
                if not _is_in_order(name):
                    return False
                if type(inner) not in _SPELT_ALIKE:
                    waiting.append(inner)
        elif kind is list:
            waiting.extend(found)  # type: ignore[arg-type]
        elif kind is float or (kind is int and abs(found) > _EXACT_INTEGER_MAX):  # type: ignore[arg-type]
            return False
    return True


def _carried(value: JsonValue) -> Any:
    """A copy whose RFC 8785 text an encoder writes that does not sort.

    No recursion: at some depths Python 3.11 asks the kernel for memory in each call of a function,
    and a value with 17,000 numbers below 98 levels took 100 ms instead of 5.
    """
    whole: list[Any] = [value]
    waiting: list[Any] = [whole]
    while waiting:
        inside = waiting.pop()
        for place in range(len(inside)) if type(inside) is list else [*inside]:
            found = inside[place]
            kind = type(found)
            if kind is float:
                size = abs(found)
                if size < 1e-5 or size > _EXACT_INTEGER_MAX or found.is_integer():
                    inside[place] = _number(found)
            elif kind is int:
                if abs(found) > _EXACT_INTEGER_MAX:
                    inside[place] = str(found)
            elif kind is list:
                inside[place] = found = [*found]
                waiting.append(found)
            elif kind is dict:
                inside[place] = found = _sorted(found)
                waiting.append(found)
    return whole[0]


def _sorted(members: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A copy whose names are in the order of their UTF-16 code units."""
    key = None if all(map(_is_in_order, members)) else _utf_16
    return {name: members[name] for name in sorted(members, key=key)}


def _is_in_order(name: str) -> bool:
    """Whether its place among names is the same in UTF-16: it has no pair of code units."""
    return name.isascii() or len(_utf_16(name)) == 2 * len(name)


def _utf_16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _number(value: float) -> int | float | Raw:
    """A number that the encoder writes as ECMAScript does; it differs where exponents begin."""
    size = abs(value)
    if size <= _EXACT_INTEGER_MAX and value.is_integer():
        return int(value)
    if not (size > _EXACT_INTEGER_MAX or 1e-6 <= size < 1e-5):
        return value
    mantissa, _, exponent = repr(value).partition("e")
    if size >= 1e21:
        return Raw(f"{mantissa}e{exponent}".encode())
    sign, digits = "-" if value < 0 else "", mantissa.lstrip("-").replace(".", "")
    if size < 1:
        return Raw(f"{sign}0.00000{digits}".encode())
    zeros = "0" * (int(exponent) + 1 - len(digits)) if exponent else ""
    return Raw(f"{sign}{digits if exponent else digits[:-1]}{zeros}".encode())
