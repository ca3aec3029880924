"""Digests: SHA-256 of bytes, of texts, and of JSON values however they are spelt."""

from collections.abc import Mapping, Sequence
from itertools import chain
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
    return _SORTING.encode(value) if _is_plain(value) else _carried(value)


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
            is_looked_at = False
            for name, inner in found.items():  # type: ignore[union-attr]
                if not (is_looked_at or name.isascii()):
                    is_looked_at = True  # all names of the object at once
                    if _has_pairs("".join(found)):  # type: ignore[arg-type]
                        return False
                if type(inner) not in _SPELT_ALIKE:
                    waiting.append(inner)
        elif kind is list:
            waiting.extend(found)  # type: ignore[arg-type]
        elif kind is float or (kind is int and abs(found) > _EXACT_INTEGER_MAX):  # type: ignore[arg-type]
            return False
    return True


def _carried(value: JsonValue) -> bytes:
    """The RFC 8785 text of a value that is copied first, with what encoders spell otherwise.

    No recursion: at some depths Python 3.11 asks the kernel for memory in each call of a function,
    and a value with 17,000 numbers below 98 levels took 100 ms instead of 5.
    """
    copied: list[Any] = [[value]]
    for inside in copied:  # which grows
        for place, found in enumerate(inside) if type(inside) is list else inside.items():
            kind = type(found)
            if kind is float:
                size = abs(found)
                if size >= 1e16 or 1e-6 <= size < 1e-5:
                    inside[place] = _number(found)
                elif found.is_integer():
                    inside[place] = int(found)
            elif kind is list or kind is dict:
                inside[place] = copy = found.copy()
                copied.append(copy)
            elif kind is int and abs(found) > _EXACT_INTEGER_MAX:
                inside[place] = str(found)
    objects = [inside for inside in copied if type(inside) is dict]
    return _encoder(objects).encode(copied[0][0])


def _encoder(objects: Sequence[dict[str, Any]]) -> Encoder:
    """One that writes names in the order of their UTF-16 code units; it may be put in here."""
    if not _has_pairs("".join(set(chain.from_iterable(objects)))):
        return _SORTING
    for members in objects:
        items = sorted(members.items(), key=lambda item: _utf_16(item[0]))
        members.clear()
        members.update(items)
    return _AS_SORTED


def _has_pairs(names: str) -> bool:
    """Whether UTF-16 may put them in another order: by a character of two code units."""
    return len(_utf_16(names)) != 2 * len(names)


def _utf_16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _number(value: float) -> Raw:
    """A number as ECMAScript writes it; encoders differ in where exponents begin.

    The encoder finds the digits in a tenth of the time of `repr`.
    """
    text = _AS_SORTED.encode(abs(value))  # such as 1.5e-6, 1.5e16 and 1.5e300
    if abs(value) >= 1e21:
        text = text.replace(b"e", b"e+")
    else:
        digits = text[:1] + text[2:-3]
        is_small = abs(value) < 1
        text = b"0.00000" + digits if is_small else digits.ljust(int(text[-2:]) + 1, b"0")
    return Raw(b"-" + text if value < 0 else text)
