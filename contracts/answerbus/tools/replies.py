"""The replies of a server to its calls: results, repeats of them, and progress."""

import asyncio
import logging

from answerbus.continued_call import ToolQuestion
from answerbus.envelope import TOOLS_SOURCE, Encoded, encode
from answerbus.limits import NOTE_BYTES_MAX
from answerbus.reconcile import Finding, ToolReconcile, ToolReconciled
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.tools.channel import Answer, Channel, ChannelUnavailable, Received, ReplyRefused
from answerbus.tools.core.answered import AnsweredCalls
from answerbus.tools.core.asking import Ask
from answerbus.tools.running import Outcome, TimeLimit
from answerbus.wire import clip

AGAIN_AFTER_S = (0.1, 0.5, 2.0, 5.0)  # and then the last one again

_log = logging.getLogger(__name__)


class Replies:
    """Writes to the place that each call names."""

    def __init__(self, channel: Channel, server: str) -> None:
        self._channel = channel
        self._server = clip(server, NOTE_BYTES_MAX)
        self.answered = AnsweredCalls()

    async def result(
        self,
        record: ToolCallRecord,
        outcome: Outcome,
        received: Received,
        notes: tuple[str, ...] = (),
        took_s: float = 0.0,
        micro_usd: int | None = None,
    ) -> None:
        """Returns once the broker has it, however long that takes. Raises ReplyRefused."""
        result = ToolResult(
            call_id=record.call_id,
            workflow_id=record.workflow_id,
            token=record.reply.token,
            outcome=outcome,
            duration_ms=max(int(took_s * 1000), 0),
            server=self._server,
            notes=notes,
            micro_usd=micro_usd,
        )
        encoded = encode(result, source=TOOLS_SOURCE, trace=received.trace)
        self.answered.keep(record, result, len(encoded.value))
        await self._send(_answer(record, encoded))

    async def kept(self, record: ToolCallRecord, state: str, number: int) -> None:
        """Returns once the broker has the state of a call. Raises ReplyRefused."""
        await self._send(_answer(record, _progress(record, "", number, state)))

    async def question(self, record: ToolCallRecord, ask: Ask, number: int) -> None:
        """Likewise, of what a tool asks a person."""
        await self._send(_answer(record, _progress(record, "", number, ask.state, ask.question)))

    async def reconciled(self, record: ToolReconcile, finding: Finding, received: Received) -> None:
        """Likewise, of the answer to a question about a call."""
        said = ToolReconciled(
            call_id=record.call_id,
            question=record.question,
            workflow_id=record.workflow_id,
            token=record.reply.token,
            finding=finding,
            server=self._server,
        )
        encoded = encode(said, source=TOOLS_SOURCE, trace=received.trace)
        await self._send(_answer(record, encoded))

    async def _send(self, answer: Answer) -> None:
        failures = 0
        while True:
            try:
                await self._channel.answer(answer)
            except ChannelUnavailable as error:
                _log.warning("an answer is not taken by the broker, and is sent again: %s", error)
                await asyncio.sleep(AGAIN_AFTER_S[min(failures, len(AGAIN_AFTER_S) - 1)])
                failures += 1
            else:
                return

    async def progress(
        self, record: ToolCallRecord, text: str, number: int, state: str | None = None
    ) -> None:
        """Sent once, without a retry: the next progress follows anyway."""
        try:
            await self._channel.answer(_answer(record, _progress(record, text, number, state)))
        except (ChannelUnavailable, ReplyRefused) as error:
            _log.warning("cannot report progress of the call %s: %s", record.call_id, error)


class ProgressWriter:
    """Writes the latest progress of one call, one record at a time, and renews its time limit."""

    def __init__(self, replies: Replies, record: ToolCallRecord, limit: TimeLimit) -> None:
        self._replies, self._record, self._limit = replies, record, limit
        self._latest: str | None = None
        self._state: str | None = None
        self._number = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    def report(self, text: str) -> None:
        """On the loop. While a record is on its way, only the latest text is kept."""
        if self._is_closed:
            return
        self._limit.renew()
        self._latest = text
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._report())

    async def keep(self, state: str) -> None:
        """A sign of life that counts once the broker has it; what is reported then has it, too."""
        self._limit.renew()
        self._state = state
        self._number += 1
        await self._replies.kept(self._record, state, self._number)

    async def ask(self, ask: Ask) -> None:
        """The last of it: the call goes on with another delivery."""
        self._number += 1
        await self._replies.question(self._record, ask, self._number)

    async def close(self) -> None:
        """Write no more, and let what is on its way arrive: no progress follows a result."""
        self._is_closed = True
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _report(self) -> None:
        while (text := self._latest) is not None:
            self._latest = None
            self._number += 1
            await self._replies.progress(self._record, text, self._number, self._state)


def _progress(
    record: ToolCallRecord,
    text: str,
    number: int,
    state: str | None,
    asks: ToolQuestion | None = None,
) -> Encoded:
    progress = ToolProgress(
        call_id=record.call_id,
        workflow_id=record.workflow_id,
        token=record.reply.token,
        note=text,
        n=number,
        state=state,
        asks=asks,
    )
    return encode(progress, source=TOOLS_SOURCE)


def _answer(record: ToolCallRecord | ToolReconcile, encoded: Encoded) -> Answer:
    place = record.reply
    return Answer(place.partition, place.key.encode(), encoded.value, encoded.headers)
