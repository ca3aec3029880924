"""All readings of a text: as it is, unescaped, unwrapped, decoded from Base64 and others.

Each reading knows where in the text each of its characters comes from, and what work it took.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from answerbus.codes import BETWEEN, RUN, decoded, text_bytes
from answerbus.escapes import ESCAPE, UNSEEN, unescaped_once
from answerbus.spans import Joined, Places, Rewritten, Span, through

# A text that was escaped more often than this, or coded again within a code within a code, is
# read no further, so that the work has an end.
ESCAPED_TIMES_MAX = 5
CODED_TIMES_MAX = 2
# What a character costs that is unescaped and looked for codes, or decoded, and not only compared.
_UNESCAPED_WORK, _DECODED_WORK = 4, 4


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says, and which span of the text says it from one place to another.

    `work` is what it takes to have this reading, in characters that are compared.
    """

    text: str
    source: Places
    work: int


def readings(text: str, signs: bytes) -> Iterator[Reading]:
    """All readings of it, the text itself first; who has enough of them stops asking.

    Of bytes in a code, stretches of text alone are read; all `signs` count as text.
    """
    # An escape is taken whole, so that what is left of a JSON text is still one.
    whole = Rewritten(text, ESCAPE, unescaped_once).whole
    yield from _readings(text, whole, CODED_TIMES_MAX, text_bytes(signs))


def unescaped(text: str) -> Iterator[str]:
    """The text itself, and without its escapes, once to as often as is read."""
    yield from (reading.text for reading in _readings(text, Span, 0, b""))


def _readings(text: str, source: Places, coded_times: int, is_text: bytes) -> Iterator[Reading]:
    unescaped: Rewritten | None = None
    for _ in range(ESCAPED_TIMES_MAX):
        plain = Rewritten(text, UNSEEN, None)
        runs = _new_runs(plain, unescaped) if coded_times else []
        size = sum(end - start for start, end in runs)
        yield Reading(text, source, _UNESCAPED_WORK * len(text) + _DECODED_WORK * size)
        plain_source = partial(through, source, plain.source)
        if plain.text is not text:
            yield Reading(plain.text, plain_source, len(plain.text))
        coded = Joined(plain.text, runs, BETWEEN)
        for decoded_text, places in decoded(coded.text, is_text):
            within = partial(through, plain_source, partial(through, coded.source, places))
            yield from _readings(decoded_text, within, coded_times - 1, is_text)
        unescaped = Rewritten(text, ESCAPE, unescaped_once)
        if unescaped.text is text:
            return
        text, source = unescaped.text, partial(through, source, unescaped.source)
    yield Reading(text, source, len(text))


def _new_runs(plain: Rewritten, unescaped: Rewritten | None) -> list[tuple[int, int]]:
    """Where a code may be, without those that stood there, and were decoded, before.

    The characters of all codes are among those of Base64.
    """
    runs = [found.span() for found in RUN.finditer(plain.text)]
    if unescaped is None:
        return runs
    return [run for run in runs if not unescaped.kept(plain.kept(run))]
