"""The filters of a page as chips, each with the address that is without it; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.groups import Key
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.why import why_text

_OWN_WORDS = frozenset({"cause", "failure"})


@dataclass(frozen=True, slots=True)
class FilterChip:
    """What is filtered by, its value in words, and where a page without it is."""

    name: str
    value: str
    href: str


def chips_of(
    filters: DeadLetterFilters, path: str, beside: Sequence[tuple[str, str]] = ()
) -> list[FilterChip]:
    """In the order of the address; `beside` are parameters that stay."""
    return [
        FilterChip(name, value, f"{path}?{urlencode([*rest.address, *beside])}")
        for name, value, rest in _without(filters)
    ]


def value_words(key: Key, value: str | None) -> str:
    """A value that dead letters are grouped by, in words; names of others are left as they are."""
    if value is None:
        return "–"
    if key.kind == "why":
        return why_text(value)
    return value.replace("_", " ") if key.kind in _OWN_WORDS else value


def _without(filters: DeadLetterFilters) -> Iterator[tuple[str, str, DeadLetterFilters]]:
    if filters.status != "open":
        yield "status", filters.status or "any", replace(filters, status="open")
    for key, value in filters.where:
        rest = tuple(pair for pair in filters.where if pair != (key, value))
        yield str(key), value_words(key, value), replace(filters, where=rest)
    if filters.text:
        yield "text", filters.text, replace(filters, text="")
    words = dict(filters.words)
    if filters.since_ms is not None:
        text = words.get("since") or as_text(filters.since_ms)
        yield "since", _time_words(text), replace(filters, since_ms=None)
    if filters.until_ms is not None:
        text = words.get("until") or as_text(filters.until_ms)
        yield "until", _time_words(text), replace(filters, until_ms=None)


def _time_words(text: str) -> str:
    """`1h` is an hour ago; a time is given as it is."""
    if text[-1:] in "smhd" and text[:-1].isdecimal():
        return f"{text[:-1]} {'min' if text[-1] == 'm' else text[-1]} ago"
    return text.replace("T", " ").removesuffix(".000Z").removesuffix("Z")
