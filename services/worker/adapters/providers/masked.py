"""A provider whose replies are masked: no echoed key reaches a reader."""

import math
from dataclasses import replace
from typing import assert_never

from answerbus.limits import ANSWER_BYTES_MAX
from answerbus.masking import MASKED, Mask
from answerbus.wire import clip
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.budget.audit import FACT_BYTES_MAX
from services.worker.ports.costly_work import CostlyWork, EndedAtLimit
from services.worker.ports.provider import NotReady, Provider, Readiness, Ready, Unhealthy

IN_PLACE_CHARS_MAX = 8 * 1024  # the costliest take 20 ms; longer ones up to 200 ms


class MaskedProvider:
    """See Provider. The only way by which replies enter a worker."""

    def __init__(self, inner: Provider, mask: Mask, costly_work: CostlyWork) -> None:
        self.name, self.model = inner.name, inner.model
        self._inner, self._mask, self._costly_work = inner, mask, costly_work

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        reply = await self._inner.ask(prompt, timeout_s=timeout_s)
        if not (isinstance(reply, Answered) and len(reply.content) > IN_PLACE_CHARS_MAX):
            return masked(reply, self._mask)
        self._mask("")  # it learns of changed files here
        found = await self._costly_work.run(prompt.workflow_id, masked, reply, self._mask)
        if not isinstance(found, EndedAtLimit):
            return found
        return masked(replace(reply, content=MASKED), self._mask)

    async def preflight(self) -> Readiness:
        found = await self._inner.preflight()
        match found:
            case Ready():
                return Ready(_masked(found.software, self._mask))
            case NotReady():
                return NotReady(self._mask(found.remedy))
            case Unhealthy():
                return replace(found, why=self._mask(found.why))
            case _:
                assert_never(found)

    async def close(self) -> None:
        await self._inner.close()


def masked(reply: Reply, mask: Mask) -> Reply:
    """The reply with all its texts masked, the answer too, before anything is checked.

    What no event can carry is left out: a plug-in may pass on what its server sends.
    """
    match reply:
        case Answered():
            return Answered(_content(reply.content, mask), _facts(reply.facts, mask))
        case Refused():
            facts, category = _facts(reply.facts, mask), _masked(reply.category, mask)
            return Refused(mask(reply.reason), facts, category)
        case Truncated(limit=limit):
            return Truncated(max(limit, 0), _facts(reply.facts, mask))
        case NoAnswer() | Unavailable():
            return replace(reply, facts=_facts(reply.facts, mask))
        case Rejected():
            return replace(reply, code=_masked(reply.code, mask))
        case Throttled(retry_after_s=wait_s):
            return reply if wait_s is None or _is_time(wait_s) else Throttled(None)
        case TimedOut(after_s=after_s):
            return reply if _is_time(after_s) else Unavailable(None, ran=True)
        case _:
            assert_never(reply)


def _content(content: str, mask: Mask) -> str:
    """Of an answer that no result may carry only the size is kept, and shown."""
    size = len(content.encode(errors="surrogatepass"))
    return " " * size if size > ANSWER_BYTES_MAX else mask(content)


def _facts(facts: CallFacts, mask: Mask) -> CallFacts:
    return CallFacts(
        model=_masked(facts.model, mask),
        request_id=_masked(facts.request_id, mask),
        stop_reason=_masked(facts.stop_reason, mask),
        usage=facts.usage,
        service_tier=_masked(facts.service_tier, mask),
    )


def _masked(text: str | None, mask: Mask) -> str | None:
    return None if text is None else clip(mask(text), FACT_BYTES_MAX)


def _is_time(seconds: float) -> bool:
    """Whether an event can carry it: a plug-in may take any number from its server."""
    return 0 <= seconds < math.inf
