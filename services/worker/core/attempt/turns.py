"""The turns of a conversation with a model, as every provider takes them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

_OPENING = "This is the conversation so far."
_ENDING = "Answer now."


@dataclass(frozen=True, slots=True)
class Turn:
    """One message to the model."""

    role: Literal["user", "assistant"]
    text: str


def alternating(turns: Iterable[Turn]) -> Iterator[Turn]:
    """The user's first and last, no two of one role in a row: some providers insist on it.

    Blank turns are left out, which some refuse.
    """
    filled = [turn for turn in turns if turn.text.strip()]
    if filled and filled[0].role == "assistant":
        filled.insert(0, Turn("user", _OPENING))
    if not filled or filled[-1].role == "assistant":
        filled.append(Turn("user", _ENDING))
    for role, neighbours in groupby(filled, key=lambda turn: turn.role):
        yield Turn(role, "\n\n".join(turn.text for turn in neighbours))
