"""The digest of a prompt, for the audit; what the last prompt of a run began with is read once."""

import hashlib
from typing import TYPE_CHECKING

from services.worker.core.attempt.turn import Turn

if TYPE_CHECKING:
    from hashlib import _Hash


class PromptDigest:
    """Digests of prompts, one after the other; it remembers the beginning of the last, as a state.

    What it remembers changes no digest.
    """

    __slots__ = ("_begun", "_system", "_turns")

    def __init__(self) -> None:
        self._system: str | None = None
        self._turns: tuple[Turn, ...] = ()
        self._begun = hashlib.sha256()

    def of(self, system: str, turns: tuple[Turn, ...], schema: str) -> str:
        """SHA-256 over the texts; the last turn grows in the next prompt, and is not kept."""
        known = len(self._turns)
        if system != self._system or turns[:known] != self._turns:
            self._begun, known = hashlib.sha256(_encoded(system)), 0
        for turn in turns[known:-1]:
            _add(self._begun, turn)
        self._system, self._turns = system, turns[: max(known, len(turns) - 1)]
        whole = self._begun.copy()
        for turn in turns[len(self._turns) :]:
            _add(whole, turn)
        whole.update(_encoded("\0" + schema))
        return "sha256:" + whole.hexdigest()


def _add(digest: "_Hash", turn: Turn) -> None:
    digest.update(_encoded(f"\0{turn.role}:{turn.text}"))


def _encoded(text: str) -> bytes:
    """Half surrogate pairs, which providers do send, count too."""
    return text.encode(errors="surrogatepass")
