"""The last prompts of open runs, since the next one of each begins with the same: a cache."""

from collections import OrderedDict
from dataclasses import dataclass

from answerbus.request_key import OfRequest, RequestKey
from services.worker.core.attempt.turns import Shown
from services.worker.core.run.transcript_draft import TranscriptDraft

KEPT_BYTES_MAX = 32 * 1024 * 1024  # of texts, in all runs of a worker process
_MESSAGE_BYTES = 1_024  # of a message without its text, in memory: about


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    """The messages about the run, and their prompt."""

    draft: TranscriptDraft | None = None
    shown: Shown | None = None

    @property
    def steps(self) -> int:
        """How many steps it covers."""
        return len(self.draft.steps) if self.draft else 0

    @property
    def size(self) -> int:
        """About how many bytes it takes: each text as written, and as shown."""
        if self.shown is None:
            return 0
        return 2 * self.shown.size + _MESSAGE_BYTES * len(self.shown.messages)


NOTHING_KEPT = KeptPrompt()


class KeptPrompts:
    """By run; those that were kept longest ago are given up first."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max, self._bytes = bytes_max, 0
        self._kept: OrderedDict[RequestKey, KeptPrompt] = OrderedDict()

    def of(self, request: OfRequest) -> KeptPrompt:
        """The last prompt of its run, or nothing."""
        return self._kept.get(RequestKey.of(request), NOTHING_KEPT)

    def keep(self, request: OfRequest, prompt: KeptPrompt) -> None:
        """In the place of the one before."""
        key = RequestKey.of(request)
        self._bytes += prompt.size - self._kept.pop(key, NOTHING_KEPT).size
        self._kept[key] = prompt
        while self._bytes > self._bytes_max:
            _, given_up = self._kept.popitem(last=False)
            self._bytes -= given_up.size
