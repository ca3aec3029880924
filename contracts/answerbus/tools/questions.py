"""Answers questions about calls: runs reconcilers side by side, each bounded in time."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from answerbus.client.bounded import take_error
from answerbus.reconcile import Finding, NotKnown
from answerbus.request_key import CallKey
from answerbus.tools.channel import Received, ReplyRefused
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.intake import Question
from answerbus.tools.core.reconciler import finding_of
from answerbus.tools.replies import Replies
from answerbus.tools.running import Ended, TimeLimit, run

AT_ONCE_MAX = 16  # reconcilers, with those that hang; beyond it nothing is found out

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _AskedCall:
    id: str


class Questions:
    """`is_at_work` says whether this server is still at work on a call: then nothing is known."""

    def __init__(self, replies: Replies, is_at_work: Callable[[CallKey], bool]) -> None:
        self._replies, self._is_at_work = replies, is_at_work
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def take(
        self, question: Question, received: Received, left_s: float, done: Callable[[], None]
    ) -> None:
        """Answer within `left_s`; `done` is called once the broker has the answer."""
        task = asyncio.create_task(self._answer(question, received, left_s, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Leave unanswered questions to the next server."""
        for task in self._tasks:
            task.cancel()

    async def _answer(
        self, question: Question, received: Received, left_s: float, done: Callable[[], None]
    ) -> None:
        finding = await self._find(question, left_s)
        try:
            await self._replies.reconciled(question.record, finding, received)
        except ReplyRefused as error:
            _log.warning("the answer about %s has no place: %s", question.record.call_id, error)
        done()

    async def _find(self, question: Question, left_s: float) -> Finding:
        key, tool = CallKey.of(question.record), question.reconciler
        if tool is None or self._is_at_work(key) or self._running >= AT_ONCE_MAX:
            return NotKnown()
        limit = TimeLimit(min(tool.card.timeout_s, left_s), asyncio.get_running_loop())
        straggler: asyncio.Future[Ended] | None = None
        self._running += 1
        try:
            ended = await run(tool, question.args, _AskedCall(question.record.call_id), limit)
            straggler = ended.straggler
        finally:
            if straggler is None:
                self._running -= 1
            else:
                straggler.add_done_callback(self._straggler_ended)
        # It may have begun while the reconciler looked.
        if isinstance(ended.outcome, Ask) or self._is_at_work(key):
            return NotKnown()
        return finding_of(ended.outcome)

    def _straggler_ended(self, straggler: "asyncio.Future[Ended]") -> None:
        take_error(straggler)
        self._running -= 1
