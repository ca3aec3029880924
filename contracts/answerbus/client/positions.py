"""Positions of `Client.follow` as a text that can be kept: where to go on in each topic."""

import re
from collections.abc import Mapping
from typing import TypeAlias

from answerbus.topics import OUTCOMES, STEPS

FOLLOWED_TOPICS = (STEPS, *OUTCOMES)
_PART = re.compile(r"(\d{1,9}):(\d{1,19})\.(\d{1,19})\.(\d{1,19})\.(\d{1,19})", re.ASCII)
_OFFSET_MAX = 2**63 - 1

Offsets: TypeAlias = dict[tuple[str, int], int]
"""The next offset to be read, by the name of a topic and a partition."""


def position_of(offsets: Mapping[tuple[str, int], int]) -> str:
    """For each partition its number, and the offsets of steps and of the topics of outcomes."""
    numbers = sorted({number for _, number in offsets})
    return ",".join(
        f"{number}:" + ".".join(str(offsets[topic.name, number]) for topic in FOLLOWED_TOPICS)
        for number in numbers
    )


def offsets_of(position: str) -> Offsets:
    """The offsets that a position says; raises ValueError."""
    found: Offsets = {}
    for part in position.split(","):
        matched = _PART.fullmatch(part)
        if matched is None:
            raise ValueError(f"{position[:100]!r} is not a position that `follow` gave.")
        number, *offsets = map(int, matched.groups())
        if max(offsets) > _OFFSET_MAX:
            raise ValueError(f"{position[:100]!r} is not a position that `follow` gave.")
        for topic, offset in zip(FOLLOWED_TOPICS, offsets, strict=True):
            found[topic.name, number] = offset
    return found
