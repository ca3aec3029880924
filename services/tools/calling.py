"""One call by hand, from its record to its result."""

import asyncio
from collections.abc import Callable, Sequence

from answerbus.client.bus import Bus
from answerbus.continued_call import ToolQuestion
from answerbus.envelope import Undecodable
from answerbus.explain import problems_text
from answerbus.limits import REASON_BYTES_MAX
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import INPUT_REQUIRED, ToolFailure, ToolProgress, ToolResult
from answerbus.wire import clip
from services.tools.caller import calling
from services.tools.check.cases import Ruling, Sample
from services.tools.session import CheckedServer, check, hand_caller
from services.worker.adapters.clock import SystemClock

UNREADABLE = "unreadable"  # the code of an answer that no worker reads


async def call_once(
    bus: Bus,
    toolset: str,
    sample: Sample,
    *,
    name: str,
    token: str,
    timeout_s: float,
    on_progress: Callable[[ToolProgress], None],
) -> ToolResult | None:
    """The result; None if there is none in time. Raises BusUnavailable, SetUpError."""
    by_hand = hand_caller(bus, name, token)
    async with calling(bus, toolset) as caller:
        record = by_hand.call(
            name,
            toolset,
            sample.tool,
            sample.args,
            at=SystemClock().now(),
            expires_s=timeout_s,
            approved_by=sample.approved_by,
        )
        await caller.publish([record.model_dump_json().encode()])
        loop = asyncio.get_running_loop()
        until, dropped = loop.time() + timeout_s, None
        while loop.time() < until:
            for reply in await caller.replies():
                match reply.event:
                    case ToolResult(token=found) as result if found == token:
                        return result
                    case ToolProgress(token=found, asks=ToolQuestion()) as asking if found == token:
                        return _unasked(asking)
                    case ToolProgress(token=found) as progress if found == token:
                        until = loop.time() + timeout_s
                        on_progress(progress)
                    case Undecodable(workflow_id=of) as unread if name in (of, _text(reply.key)):
                        dropped = _dropped(unread, record)
                        if not _is_progress(unread):  # which a result may follow
                            return dropped
                    case _:
                        pass
    return dropped


def _unasked(asking: ToolProgress) -> ToolResult:
    """A question of the tool, as the end of a call by hand."""
    asked = asking.asks.question if asking.asks else ""
    message = clip(f"it asks a person, which a run alone can do: {asked}", REASON_BYTES_MAX)
    return ToolResult(
        call_id=asking.call_id,
        workflow_id=asking.workflow_id,
        token=asking.token,
        outcome=ToolFailure(code=INPUT_REQUIRED, message=message),
    )


def _text(key: bytes | None) -> str:
    return (key or b"").decode(errors="replace")


def _is_progress(unread: Undecodable) -> bool:
    return unread.body is not None and unread.body.get("kind") == "tool_progress"


def _dropped(unread: Undecodable, record: ToolCallRecord) -> ToolResult:
    """An answer that no worker would take, as the end of a call by hand."""
    message = f"a worker drops this answer of the server: {problems_text(unread.problems)}"
    return ToolResult(
        call_id=record.call_id,
        workflow_id=record.workflow_id,
        token=record.reply.token,
        outcome=ToolFailure(code=UNREADABLE, message=clip(message, REASON_BYTES_MAX)),
    )


async def check_now(
    bus: Bus,
    toolset: str,
    sample: Sample | None,
    name: str,
    token: str,
    timeout_s: float,
    say: Callable[[str], None],
) -> Sequence[Ruling]:
    """Every ruling. Raises BusUnavailable, SetUpError."""
    at = SystemClock().now()
    checked = CheckedServer(toolset, hand_caller(bus, name, token), at, timeout_s, sample)
    return await check(bus, checked, say)
