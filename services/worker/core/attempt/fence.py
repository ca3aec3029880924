"""Marks around text from outside, so that a model sees where it begins and ends.

A mark is derived from the piece that it stands around and a secret of the deployment. So the same
piece looks the same in every prompt, and who wrote it cannot know its mark.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass

MARK_CHARS = 12  # hexadecimal digits
_HEX = re.compile(rf"[0-9a-f]{{{MARK_CHARS},}}")
_DIGITS = b"0123456789abcdef"
_DIGIT_OR_NOT = bytes(ord("x" if byte in _DIGITS else " ") for byte in range(256))
_LIKE_A_MARK = b"x" * MARK_CHARS


@dataclass(frozen=True, slots=True)
class Fence:
    """Makes marks that occur in none of the texts which it was made for."""

    secret: bytes
    _taken: frozenset[str]

    @classmethod
    def around(cls, secret: bytes, texts: Iterable[str]) -> "Fence":
        """A fence for `texts`, and for any that come later."""
        return cls(secret, frozenset[str]().union(*map(_like_marks, texts)))

    def put(self, label: str, text: str) -> str:
        """`label` is one of ours, never a text from outside."""
        mark = self._mark(f"{label}\0{text}", _like_marks(text))
        return f"<data {mark} {label}>\n{text}\n</data {mark}>"

    def _mark(self, piece: str, inside: frozenset[str]) -> str:
        mark = self._derived(piece)
        # By chance, or because the author has seen an answer that repeats a mark.
        while mark in self._taken or mark in inside:
            mark = self._derived(f"{mark}\0{piece}")
        return mark

    def _derived(self, piece: str) -> str:
        return hmac.digest(self.secret, piece.encode(), "sha256").hex()[:MARK_CHARS]


def _like_marks(text: str) -> frozenset[str]:
    """Everything in a text that could be a mark; nearly all have nothing, which is soon seen."""
    if _LIKE_A_MARK not in text.encode(errors="replace").translate(_DIGIT_OR_NOT):
        return frozenset()
    return frozenset(
        run[start : start + MARK_CHARS]
        for run in _HEX.findall(text)
        for start in range(len(run) - MARK_CHARS + 1)
    )
