"""A client's operations on open requests, without `await`: see OpenRequests."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from answerbus.client.client import Client
from answerbus.client.controls import PublishedControl
from answerbus.client.follow import Followed
from answerbus.client.loop_thread import LoopThread
from answerbus.client.open_requests import EFFECT_TIMEOUT_S_DEFAULT
from answerbus.control import ApprovalRequested, ControlApplied


class SyncOpenRequests:
    """A part of SyncClient; parameters and errors are those of OpenRequests."""

    _client: Client
    _thread: LoopThread

    def follow(
        self,
        request_id: str,
        workflow_id: str,
        *,
        after: str | None = None,
        since: datetime | None = None,
    ) -> Iterator[Followed]:
        """See `Client.follow`."""
        events = self._client.follow(request_id, workflow_id, after=after, since=since)
        while (followed := self._thread.call(_next(events))) is not None:
            yield followed

    def position(self, workflow_id: str) -> str:
        """See `Client.position`."""
        return self._thread.call(self._client.position(workflow_id))

    def cancel(
        self, request_id: str, workflow_id: str, *, by: str, reason: str
    ) -> PublishedControl:
        """See `Client.cancel`."""
        return self._thread.call(self._client.cancel(request_id, workflow_id, by=by, reason=reason))

    def cancel_workflow(self, workflow_id: str, *, by: str, reason: str) -> PublishedControl:
        """See `Client.cancel_workflow`."""
        return self._thread.call(self._client.cancel_workflow(workflow_id, by=by, reason=reason))

    def approve(self, asked: ApprovalRequested, *, by: str, reason: str) -> PublishedControl:
        """See `Client.approve`."""
        return self._thread.call(self._client.approve(asked, by=by, reason=reason))

    def deny(self, asked: ApprovalRequested, *, by: str, reason: str) -> PublishedControl:
        """See `Client.deny`."""
        return self._thread.call(self._client.deny(asked, by=by, reason=reason))

    def effect_of(
        self, published: PublishedControl, *, timeout_s: float | None = EFFECT_TIMEOUT_S_DEFAULT
    ) -> ControlApplied | None:
        """See `Client.effect_of`."""
        return self._thread.call(self._client.effect_of(published, timeout_s=timeout_s))


async def _next(events: AsyncIterator[Followed]) -> Followed | None:
    return await anext(events, None)
