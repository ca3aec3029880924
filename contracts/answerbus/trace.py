"""W3C trace context in headers."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

TRACE_STATE_BYTES_MAX = 512  # what everybody must pass on; more may be dropped
TRACE_PARENT = "traceparent"
TRACE_STATE = "tracestate"
SAMPLED = 0x01

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_STATE = re.compile(rb"[ -~]+")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace and the span in it that caused what comes next; ids are lower-case hex digits."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED
    state: str = ""

    @property
    def is_sampled(self) -> bool:
        """Whether the trace's origin wants its spans to be kept."""
        return bool(self.flags & SAMPLED)

    def child(self, name: str) -> "Trace":
        """The trace with another span in it: the same name always gives the same span."""
        return Trace(self.trace_id, span_id(self.trace_id, name), self.flags, self.state)

    def headers(self) -> dict[str, str]:
        """The record headers `traceparent` and, where there is a state, `tracestate`."""
        parent = f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"
        if not self.state:
            return {TRACE_PARENT: parent}
        return {TRACE_PARENT: parent, TRACE_STATE: self.state}


def read_trace(headers: Sequence[tuple[str, bytes | None]]) -> Trace | None:
    """The trace that the headers of a record name; None if there is none, or one that is odd."""
    parents = [content for name, content in headers if name == TRACE_PARENT]
    found = _PARENT.fullmatch(parents[0] or b"") if len(parents) == 1 else None
    if found is None:
        return None
    version, trace_id, span, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more):
        return None
    trace = Trace(trace_id.decode(), span.decode(), int(flags, 16), _state(headers))
    return None if trace.trace_id == _NO_TRACE or trace.span_id == _NO_SPAN else trace


def new_trace(seed: str, name: str) -> Trace:
    """A trace that begins with the span `name`; the same seed always gives the same trace."""
    trace_id = hashlib.sha256(seed.encode()).hexdigest()[:32]
    return Trace(trace_id, span_id(trace_id, name))


def span_id(trace_id: str, name: str) -> str:
    """The id of the span of that name; spans that were sent before a restart keep their place."""
    return hashlib.sha256(f"{trace_id}/{name}".encode()).hexdigest()[:16]


def _state(headers: Sequence[tuple[str, bytes | None]]) -> str:
    found = b",".join(content for name, content in headers if name == TRACE_STATE and content)
    fits = len(found) <= TRACE_STATE_BYTES_MAX and _STATE.fullmatch(found)
    return found.decode() if fits else ""
