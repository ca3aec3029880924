"""What the lines that a task logs are about: one request, or nothing in particular."""

from collections.abc import Mapping
from contextvars import ContextVar

ABOUT: ContextVar[Mapping[str, str] | None] = ContextVar("about", default=None)


def tell_of(request_id: str, workflow_id: str, trace_id: str) -> None:
    """From here on this task works on that request."""
    ABOUT.set({"request_id": request_id, "workflow_id": workflow_id, "trace_id": trace_id})


def tell_of_none() -> None:
    """What this task begins now is about no request."""
    ABOUT.set(None)
