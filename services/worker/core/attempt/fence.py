"""Marks around text from outside, so that a model sees where it begins and ends.

A mark is derived from the piece that it is around and a secret of the deployment. So the same
piece looks the same in every prompt, and who wrote it cannot know its mark.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

MARK_CHARS = 12  # hexadecimal digits
_BLOCK_CHARS = MARK_CHARS // 2  # cut into these, a text has a whole one of any mark that is in it
_DIGITS = b"0123456789abcdef"
_DIGIT_OR_NOT = bytes(ord("x" if byte in _DIGITS else " ") for byte in range(256))
_LIKE_A_MARK = b"x" * MARK_CHARS


@dataclass(frozen=True, slots=True)
class Fence:
    """Makes marks that occur in none of the texts which it was made for."""

    secret: bytes
    _text: str  # all that could have a mark in it
    _blocks: frozenset[str]

    @classmethod
    def around(cls, secret: bytes, texts: Iterable[str]) -> "Fence":
        """A fence for `texts`, and for any that come later."""
        text = "\n".join(filter(_may_have_a_mark, texts))
        places = range(0, len(text), _BLOCK_CHARS)
        return cls(secret, text, frozenset(text[at : at + _BLOCK_CHARS] for at in places))

    def put(self, label: str, text: str) -> str:
        """`label` is one of ours, never a text from outside."""
        mark = self._mark(f"{label}\0{text}", text)
        return f"<data {mark} {label}>\n{text}\n</data {mark}>"

    def _mark(self, piece: str, text: str) -> str:
        mark = self._derived(piece)
        # By chance, or because the author has seen an answer that repeats a mark.
        while mark in text or self._occurs(mark):
            mark = self._derived(f"{mark}\0{piece}")
        return mark

    def _derived(self, piece: str) -> str:
        return hmac.digest(self.secret, piece.encode(), "sha256").hex()[:MARK_CHARS]

    def _occurs(self, mark: str) -> bool:
        """There may be thousands of pieces, so that the whole text is not searched for each."""
        starts = range(_BLOCK_CHARS + 1)
        may = any(mark[start : start + _BLOCK_CHARS] in self._blocks for start in starts)
        return may and mark in self._text


def _may_have_a_mark(text: str) -> bool:
    """Nearly no text has so many digits in a row, which is soon seen."""
    return _LIKE_A_MARK in text.encode(errors="replace").translate(_DIGIT_OR_NOT)
