"""A client's operations on open requests: follow a run, cancel, approve a tool call."""

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Literal

from answerbus.client.connection import Connection
from answerbus.client.controls import PublishedControl
from answerbus.client.follow import Followed
from answerbus.control import Approval, ApprovalRequested, Cancel, ControlApplied
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip

EFFECT_TIMEOUT_S_DEFAULT = 30.0


class OpenRequests:
    """A part of Client. Every method raises BusUnavailable if Kafka or a topic cannot be used."""

    _connection: Connection

    def follow(
        self,
        request_id: str,
        workflow_id: str,
        *,
        after: str | None = None,
        since: datetime | None = None,
    ) -> AsyncIterator[Followed]:
        """What a run does, as it comes: steps, ends of calls, approvals asked for, controls.

        Its terminal comes last, and ends the iteration. Without more it begins at the start of
        retention, `since` at a moment by Kafka's clock, and `after` behind an item that was given
        before, also by another process: a `position` is a text that can be kept. It waits for ever
        for what is still to come, and through an absence of Kafka.
        """
        return self._connection.follow(request_id, workflow_id, after, since)

    async def position(self, workflow_id: str) -> str:
        """Where `follow` begins, as its `after`, to give nothing that is there by now."""
        return await self._connection.position(workflow_id)

    async def cancel(
        self, request_id: str, workflow_id: str, *, by: str, reason: str
    ) -> PublishedControl:
        """End an open request, a run or not, with its calls: a dead letter `cancelled`.

        A request that no worker has read yet is cancelled when it is read; one that has had its
        outcome stays as it is. `effect_of` says which.
        """
        return await self._connection.control(
            Cancel(
                scope="request",
                request_id=request_id,
                workflow_id=workflow_id,
                by=by,
                reason=reason,
                at=_now(),
            )
        )

    async def cancel_workflow(self, workflow_id: str, *, by: str, reason: str) -> PublishedControl:
        """End all requests of a workflow that are open by now."""
        return await self._connection.control(
            Cancel(scope="workflow", workflow_id=workflow_id, by=by, reason=reason, at=_now())
        )

    async def approve(self, asked: ApprovalRequested, *, by: str, reason: str) -> PublishedControl:
        """Let a call run that awaits it, once, and with the arguments that `asked` shows.

        Needs the right to write `approvals`, which operators have and applications do not. The
        event says the user of Kafka as its `by`, and this `by` as `said_by`.
        """
        return await self._decide(asked, "approved", by, reason)

    async def deny(self, asked: ApprovalRequested, *, by: str, reason: str) -> PublishedControl:
        """Refuse a call that awaits approval; the run goes on, and its model is shown it."""
        return await self._decide(asked, "denied", by, reason)

    async def effect_of(
        self, published: PublishedControl, *, timeout_s: float | None = EFFECT_TIMEOUT_S_DEFAULT
    ) -> ControlApplied | None:
        """What a control came to, once its lane has read it; None if not within `timeout_s`."""
        return await self._connection.effect_of(published, timeout_s)

    async def _decide(
        self,
        asked: ApprovalRequested,
        decision: Literal["approved", "denied"],
        by: str,
        reason: str,
    ) -> PublishedControl:
        return await self._connection.control(
            Approval(
                call_id=asked.call_id,
                args_digest=asked.args_digest,
                decision=decision,
                by=clip(self._connection.principal, REASON_BYTES_MAX),
                said_by=by,
                reason=reason,
                workflow_id=asked.workflow_id,
                at=_now(),
            )
        )


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
