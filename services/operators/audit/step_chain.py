"""The steps of one run and the ends of its calls as a chain: each links to the one before; pure."""

from dataclasses import dataclass, field

from answerbus.step import Step, ToolEnded
from services.operators.audit.attempt_chain import hash_print
from services.operators.audit.findings import Fault


@dataclass(slots=True)
class StepChain:
    """The state of a run after its records so far.

    `is_whole` says whether its first record is there: counts mean nothing without it. A replay
    goes on from the `taken_over` steps of the run that died, at the head of its chain.
    """

    is_whole: bool = True
    is_broken: bool = False
    head: str | None = None
    taken_over: int = 0
    steps: int = 0
    calls: int = 0
    open_calls: set[str] = field(default_factory=set)
    _prints: set[bytes] = field(default_factory=set)

    def follow(self, event: Step | ToolEnded, *, was_cut: bool) -> Fault | None:
        """Add the next record, whose own hash is right, or say why it does not follow.

        `was_cut`: the topic does not reach back to its beginning.
        """
        fault = self._link(event, was_cut=was_cut) or self._content(event)
        if fault is None:
            self.head = event.hash
            self._prints.add(hash_print(event.hash))
        return fault

    def goes_on(self) -> "StepChain":
        """The chain of a run that takes over the steps of this one, which has ended."""
        return StepChain(self.is_whole, head=self.head, taken_over=self.taken_over + self.steps)

    def ended_otherwise(self, steps: int, tool_calls: int) -> str | None:
        """The value that its outcome should have here; None if it is right."""
        if not self.is_whole:
            return None
        if (steps, tool_calls) != (self.steps, self.calls):
            message = f"{steps} steps and {tool_calls} calls, as its outcome says"
            return f"{message}, not {self.steps} and {self.calls}"
        if self.open_calls:
            return f"an end of each call, also of {min(self.open_calls)}"
        return None

    def _link(self, event: Step | ToolEnded, *, was_cut: bool) -> Fault | None:
        if hash_print(event.hash) in self._prints:
            return "twice", "this very record once"
        if event.previous == self.head:
            return None
        if self.head is None and was_cut:
            self.is_whole = False
            return None
        return "link", f"`previous` to be {self.head or 'null'}, the record before it"

    def _content(self, event: Step | ToolEnded) -> Fault | None:
        if isinstance(event, Step):
            expected = self.taken_over + self.steps + 1
            if self.is_whole and event.n != expected:
                return "step_number", f"step {expected} of {event.request_id}"
            self.steps = event.n - self.taken_over
            self.calls += len(event.calls)
            self.open_calls |= {call.call_id for call in event.calls}
            return None
        if event.call_id not in self.open_calls:
            if self.is_whole:
                return "call", f"a step that asks for {event.call_id}, and no other end of it"
            return None
        self.open_calls.discard(event.call_id)
        return None
