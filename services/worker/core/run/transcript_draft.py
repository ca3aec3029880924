"""The transcript of a run while it is made, step by step, within its limits."""

from collections import Counter
from dataclasses import dataclass, field, replace
from weakref import ref

from answerbus.private.runs import AgentDefinition, RunCallRecord, RunStepRecord
from answerbus.request import Message
from services.worker.core.run.repeats import CallKey
from services.worker.core.run.run import Run
from services.worker.core.run.run_message import RunMessage

KEPT_SHARE = 0.5  # of the limit, once it is reached: so that not each step reaches it again
BYTES_PER_TOKEN = 2  # of text that no provider has counted: English has 4, JSON 3, hexadecimal 2


@dataclass(frozen=True, slots=True)
class PromptRoom:
    """How many tokens a prompt may have; `other_bytes` of it are not part of the transcript."""

    tokens: int
    other_bytes: int = 0


@dataclass(slots=True)
class TranscriptDraft:
    """What is shown so far; `whole` are the results that may be shortened, oldest first.

    `end` is the form of the answer that ends the run, and `failures` says how often each call has
    failed. It was made of `steps` and of `records`, the states of their calls by id. These are the
    run's, as its `definition` is: they have many times the bytes of their texts, and go with it.
    """

    definition: ref[AgentDefinition]
    bytes_max: int
    end: str
    room: PromptRoom | None
    steps: tuple[ref[RunStepRecord], ...] = ()
    records: dict[str, ref[RunCallRecord] | None] = field(default_factory=dict)
    failures: Counter[CallKey] = field(default_factory=Counter)
    messages: list[Message] = field(default_factory=list)
    whole: dict[int, RunMessage] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)
    total: int = 0  # bytes
    fresh_bytes: int = 0
    _begin: int = 0  # the place of the step's first message
    _counted: int | None = None  # tokens of the prompt that the step answers
    _per_byte: float = 1 / BYTES_PER_TOKEN  # tokens, of what was shown before
    _freed: int = 0  # bytes of what was shown before

    def is_begin_of(self, run: Run, end: str, room: PromptRoom | None) -> bool:
        """Whether the transcript of the run begins with the same steps, shown in the same way."""
        return (
            (self.definition() is run.definition and self.end == end and self.room == room)
            and len(self.steps) <= len(run.steps)
            and all(one() is step for one, step in zip(self.steps, run.steps, strict=False))
            and all(_is_still(one, run.calls.get(name)) for name, one in self.records.items())
        )

    def copy(self) -> "TranscriptDraft":
        """One to go on with; this one stays as it is."""
        return replace(
            self,
            records={**self.records},
            failures=self.failures.copy(),
            messages=[*self.messages],
            whole={**self.whole},
            fresh={*self.fresh},
        )

    def begin(self, step: RunStepRecord) -> None:
        """The provider has counted what was shown so far, if it counts."""
        self.steps = (*self.steps, ref(step))
        self._begin, self._freed, self._counted = (
            len(self.messages),
            0,
            step.usage.input_tokens or None,
        )
        self.fresh, self.fresh_bytes = set(), 0
        if self.room and self._counted:
            counted_bytes = max(self.room.other_bytes + self.total, 1)
            self._per_byte = min(self._counted / counted_bytes, 1.0)

    def add(self, added: RunMessage) -> None:
        if added.head is not None:
            self.whole[len(self.messages)] = added
        self.fresh.add(len(self.messages))
        self.messages.append(added.message)
        self.total += added.size
        self.fresh_bytes += added.size

    @property
    def load(self) -> float:
        """How much of the tighter limit is used."""
        of_bytes = self.total / self.bytes_max
        return max(of_bytes, self._tokens() / self.room.tokens) if self.room else of_bytes

    def shorten(self) -> None:
        """Show the oldest results by size and digest alone; the newest only where it must be."""
        if self.load <= 1:
            return
        for place in list(self.whole):
            if self.load <= (KEPT_SHARE if place < self._begin else 1):
                break
            self._elide(place, self.whole.pop(place))

    def _elide(self, place: int, elided: RunMessage) -> None:
        before, after = elided.size, elided.short.size
        if after >= before:
            return
        self.messages[place] = elided.short.message
        self.total += after - before
        if place < self._begin:
            self._freed += before
            self.fresh.add(place)
            self.fresh_bytes += after
        else:
            self.fresh_bytes += after - before

    def _tokens(self) -> float:
        """About how many the next prompt has: what was counted, and what is new since."""
        if self._counted is None:
            other_bytes = self.room.other_bytes if self.room else 0
            return (other_bytes + self.total) / BYTES_PER_TOKEN
        return self._counted + self.fresh_bytes / BYTES_PER_TOKEN - self._freed * self._per_byte


def _is_still(before: ref[RunCallRecord] | None, record: RunCallRecord | None) -> bool:
    """Whether the record is still the one that was shown; a record that is gone is not."""
    if before is None or record is None:
        return before is None and record is None
    return before() is record
