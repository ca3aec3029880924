"""The subject of a task's log lines: one request, or none."""

from collections.abc import Mapping
from contextvars import ContextVar

LOG_CONTEXT: ContextVar[Mapping[str, str] | None] = ContextVar("about", default=None)


def set_log_context(request_id: str, workflow_id: str, trace_id: str) -> None:
    """From here on this task works on that request."""
    LOG_CONTEXT.set({"request_id": request_id, "workflow_id": workflow_id, "trace_id": trace_id})


def clear_log_context() -> None:
    """Tasks that this one starts now log without a request."""
    LOG_CONTEXT.set(None)
