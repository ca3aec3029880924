"""The position up to which a page had read dead letters: its forms exclude later ones; pure."""

import re
from collections.abc import Iterable, Mapping

SeenEnds = tuple[tuple[int, int], ...]
"""By partition, the offset after the last dead letter that was read."""

_ONE = re.compile(r"(\d{1,9}):(\d{1,18})", re.ASCII)


def seen_ends(ends: Mapping[int, int]) -> SeenEnds:
    """Of the state that a page shows."""
    return tuple(sorted(ends.items()))


def seen_ends_of(texts: Iterable[str]) -> SeenEnds | None:
    """As a form sends them, `3:4711`; None if one is no such text."""
    found = [_ONE.fullmatch(text) for text in texts]
    pairs = [(int(match[1]), int(match[2])) for match in found if match]
    return tuple(sorted(pairs)) if len(pairs) == len(found) else None
