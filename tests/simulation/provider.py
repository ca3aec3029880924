"""The provider: answers by seed, is away for a while, and is asked by processes that note it."""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from answerbus.budget import Usage
from services.telemetry.log_context import LOG_CONTEXT
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Served,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
    facts_of,
)
from services.worker.ports.provider import NotReady, Ready
from services.worker.tasks.fair_timeout import FairTimeout
from tests.chaos.audit.history import Call
from tests.simulation.billing import billed, served
from tests.simulation.process import CURRENT, Process
from tests.simulation.sides import side_of
from tests.simulation.timeline import Timeline
from tests.unit.worker.lane.virtual import VirtualClock

NOTHING_REPORTED = CallFacts()
FACTS = CallFacts(usage=Usage(input_tokens=10, output_tokens=5))
GOOD, INVALID, MALFORMED = '{"n": 1}', '{"n": "one"}', "nonsense"
FORBIDDEN = Rejected("profile", 403, None)  # by a firewall, or for want of a right
FORBIDDEN_SHARE = 0.1  # of requests that fail: a firewall dislikes their text in each call
FAILURES: tuple[Reply, ...] = (
    Refused("no", FACTS),
    Truncated(100, CallFacts()),
    NoAnswer(200, FACTS),
    TimedOut(20.0),
    Unavailable(500, ran=True),
    Unavailable(None, ran=False),
    Throttled(0.0),
    Throttled(2.0),
    Throttled(8.0),
    Throttled(None),
    Rejected("request", 400, "bad"),
    Rejected("profile", 401, "key"),
    FORBIDDEN,
)
OUTAGE: tuple[Reply, ...] = (
    Unavailable(503, ran=False),
    Throttled(4.0),
    Unavailable(500, ran=True),
)
POISON = "poison"  # the id of a request that ends the worker that calls with it
POISON_S = 0.2  # after which it does
REPLY_NAMES = {
    Answered: "answered",
    Refused: "refused",
    Truncated: "truncated",
    NoAnswer: "no_answer",
    Throttled: "throttled",
    Unavailable: "unavailable",
    TimedOut: "timed_out",
    Rejected: "rejected",
}


@dataclass(slots=True)
class NotedCall:
    """A call in the journal, as it comes to be known."""

    workflow_id: str
    request_id: str
    attempt: int
    process: int
    started: datetime
    ended: datetime | None = None
    reply: str | None = None
    ran: bool | None = None
    facts: CallFacts = NOTHING_REPORTED
    price: int = 1  # times that of the first profile


@dataclass(slots=True)
class SimProvider:
    """What a call comes to is decided by seed, request and attempt alone."""

    seed: int
    timeline: Timeline
    failure_share: float  # the share of calls that do not simply succeed
    clock: VirtualClock = field(default_factory=VirtualClock)
    is_away: bool = False
    price: int = 1
    kill: Callable[[Process], None] | None = None  # what poison does
    noted: list[NotedCall] = field(default_factory=list)
    name: str = "sim"
    model: str = "m"

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """The notes of a process that is killed in the middle have no end."""
        process = CURRENT.get()
        number = process.number if process else 0
        workflow = (LOG_CONTEXT.get() or {}).get("workflow_id", "")
        call = NotedCall(workflow, prompt.request_id, prompt.attempt, number, self._now())
        call.price = self.price
        self.noted.append(call)
        name = f"{prompt.request_id}.{prompt.attempt}"
        self.timeline.tell(f"CALL {name} begins")
        if prompt.request_id == POISON and self.kill and process:
            later = asyncio.get_running_loop().call_later
            later(POISON_S, self.kill, process, context=Context())
        try:
            delay_s, reply = self._play(prompt)
            try:
                async with FairTimeout(timeout_s):
                    await asyncio.sleep(delay_s)
            except TimeoutError:
                reply = TimedOut(timeout_s)
            if isinstance(reply, Served):
                reply = replace(reply, facts=served(reply.facts, f"{self.seed} {name}"))
            call.reply, call.facts = REPLY_NAMES[type(reply)], facts_of(reply)
            if isinstance(reply, Unavailable):
                call.ran = reply.ran
        finally:
            call.ended = self._now()
            self.timeline.tell(f"call {name} {call.reply or 'was cut off'}")
        return reply

    async def preflight(self) -> Ready | NotReady:
        return Ready()

    async def close(self) -> None:
        pass

    def second(self) -> Self:
        """Of another profile, away at other times; the journal is that of both."""
        other = copy(self)
        other.price = 2
        return other

    def journal(self, side: str | None = None) -> list[Call]:
        """For the audit: of all calls, or of those for workflows of a side."""
        return [
            Call(n.request_id, n.attempt, n.process, n.started, n.ended, n.reply)
            for n in self.noted
            if side is None or side_of(n.workflow_id) == side
        ]

    @property
    def bills(self) -> dict[tuple[str, str, int], int]:
        """What each call cost, by workflow, request and attempt."""
        return {
            (n.workflow_id, n.request_id, n.attempt): n.price * billed(n.facts) for n in self.noted
        }

    def _now(self) -> datetime:
        """With milliseconds, as events have."""
        now = self.clock.now()
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def _play(self, prompt: Prompt) -> tuple[float, Reply]:
        if prompt.request_id == POISON:
            return 1e6, TimedOut(0)
        chance = random.Random(f"{self.seed} {prompt.request_id} {prompt.attempt}")
        delay_s = chance.choice((0.0, 0.01, 0.2, 1.0, 3.0, 8.0, 16.0))
        if self.is_away:
            return delay_s, chance.choice(OUTAGE)
        if chance.random() < 0.03:
            return 1e6, TimedOut(0)  # hangs, until its time is over
        firewall = random.Random(f"{self.seed} {prompt.request_id}")
        if firewall.random() < self.failure_share * FORBIDDEN_SHARE:
            return delay_s, FORBIDDEN
        if chance.random() < self.failure_share:
            return delay_s, chance.choice(FAILURES)
        if chance.random() < 0.15:
            return delay_s, Answered(chance.choice((INVALID, MALFORMED)), FACTS)
        return delay_s, Answered(GOOD, FACTS)
