"""The work on one ticket as a task: its log lines carry the request, and an exception is a bug."""

import logging
from collections.abc import Awaitable, Callable

from services.telemetry.log_context import clear_log_context, set_log_context
from services.worker.core.request.ticket import Ticket
from services.worker.lane_port import LaneLost

_log = logging.getLogger(__name__)


async def work_on(
    ticket: Ticket, handle: Callable[[], Awaitable[None]], failed: Callable[[Exception], None]
) -> None:
    """A ticket whose lane was lost comes again when the lane is open again."""
    request = ticket.request
    set_log_context(request.request_id, request.workflow_id, ticket.incoming_trace.trace_id)
    try:
        await handle()
    except LaneLost:
        pass
    except Exception as error:
        # A bug. The request is tried again a few times, so this has an end.
        _log.exception("handling a request failed")
        clear_log_context()
        failed(error)
