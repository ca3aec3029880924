"""The client for scripts and notebooks: the same calls as Client, without `await`."""

from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from queue import SimpleQueue
from threading import RLock
from typing import Any, Literal, Self, TypeVar, overload

from pydantic import JsonValue
from typing_extensions import TypeForm, Unpack

from answerbus.client.answer_type import TypedOutcome
from answerbus.client.ask_many import JobProgressCallback
from answerbus.client.ask_options import AskOptions, JobOptions
from answerbus.client.client import EFFECT_TIMEOUT_S_DEFAULT, AnswerT, AnyAnswerT, Client
from answerbus.client.controls import PublishedControl
from answerbus.client.follow import Followed
from answerbus.client.job import CONCURRENCY_DEFAULT, JobOutcomes
from answerbus.client.loop_thread import LoopThread
from answerbus.client.progress import ProgressCallback, Published
from answerbus.client.sync_subscription import SyncSubscription
from answerbus.client.timeout import TIMEOUT_S_DEFAULT, Timeout
from answerbus.control import ApprovalRequested, ControlApplied, InputRequested
from answerbus.dead_letter import DeadLetter
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.topics import PREFIX_DEFAULT
from answerbus.trace import Trace

T = TypeVar("T")


class SyncClient:
    """A connection to the bus for code without `async`; parameters and errors are Client's.

        with SyncClient("localhost:9092") as client:
            print(client.ask("Name one even number.", workflow_id="order-4711"))

    In a notebook, `client = SyncClient("localhost:9092").open()` lasts over cells, until
    `client.close()`. It has an event loop in a thread of its own, so that it works beside one that
    is running; several threads may share it. `on_progress` is called in the thread that asks.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        topic_prefix: str = PREFIX_DEFAULT,
        registry: Registry | None = None,
        over: Client | None = None,
        **kafka: Any,
    ) -> None:
        """With `over` it makes the calls of that client, a FakeClient say, and needs no more."""
        self._client = over or Client(
            bootstrap_servers, topic_prefix=topic_prefix, registry=registry, **kafka
        )
        self._thread = LoopThread("answerbus client")
        self._opening = RLock()

    def open(self) -> Self:
        """Connect; raises BusUnavailable. To open twice does no harm."""
        with self._opening:
            if self._thread.is_running:
                return self
            self._thread.start()
            try:
                self._thread.call(self._client.__aenter__())
            except BaseException:
                self._thread.stop()
                raise
            return self

    def close(self) -> None:
        """Disconnect; calls of other threads raise BusUnavailable, and subscriptions end.

        To close twice does no harm, nor in a process forked from the client's.
        """
        if self._thread.is_forked:
            return
        with self._opening:
            if self._thread.is_running:
                closing = self._thread.begin(self._client.__aexit__())
                try:
                    self._thread.result_of(closing)
                finally:
                    self._thread.stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def subscribe(
        self,
        *,
        response_model: TypeForm[AnswerT],
        group_id: str,
        refusals: bool = True,
        dead_letters: Literal[False] = False,
        children: bool = False,
        **consumer: Any,
    ) -> SyncSubscription[AnswerT]: ...

    @overload
    def subscribe(
        self,
        *,
        response_model: TypeForm[AnswerT],
        group_id: str,
        refusals: bool = True,
        dead_letters: bool,
        children: bool = False,
        **consumer: Any,
    ) -> SyncSubscription[AnswerT, DeadLetter]: ...

    def subscribe(
        self, *, response_model: TypeForm[Any], group_id: str, **more: Any
    ) -> SyncSubscription[Any, Any]:
        """See `Client.subscribe`."""
        return SyncSubscription(
            self._client.subscribe(response_model=response_model, group_id=group_id, **more),
            self._thread,
        )

    def follow(
        self,
        request_id: str,
        workflow_id: str,
        *,
        after: str | None = None,
        since: datetime | None = None,
        request: Request | None = None,
    ) -> Iterator[Followed]:
        """See `Client.follow`."""
        events = self._client.follow(
            request_id, workflow_id, after=after, since=since, request=request
        )
        while (followed := self._thread.call(_next(events))) is not None:
            yield followed

    # Written from client.py by infra/sync_client.py: begin.

    def ask(
        self,
        instructions: str,
        *,
        workflow_id: str | None = None,
        response_model: TypeForm[AnswerT] = str,  # type: ignore[assignment]  # its default
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: ProgressCallback | None = None,
        **asking: Unpack[AskOptions],
    ) -> "TypedOutcome[AnswerT]":
        """See `Client.ask`."""
        return self._with_progress(
            lambda report: self._client.ask(
                instructions,
                workflow_id=workflow_id,
                response_model=response_model,
                timeout_s=timeout_s,
                trace=trace,
                on_progress=report,
                **asking,
            ),
            on_progress,
        )

    def ask_many(
        self,
        rows: Iterable[Mapping[str, object]],
        instructions: str,
        *,
        job_id: str | None = None,
        response_model: TypeForm[AnswerT] = str,  # type: ignore[assignment]  # its default
        facts: Mapping[str, object] = {},
        concurrency: int = CONCURRENCY_DEFAULT,
        on_progress: JobProgressCallback | None = None,
        **asking: Unpack[JobOptions],
    ) -> JobOutcomes[AnswerT]:
        """See `Client.ask_many`."""
        return self._with_progress(
            lambda report: self._client.ask_many(
                rows,
                instructions,
                job_id=job_id,
                response_model=response_model,
                facts=facts,
                concurrency=concurrency,
                on_progress=report,
                **asking,
            ),
            on_progress,
        )

    def ask_request(
        self,
        request: Request,
        *,
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> "TypedOutcome[JsonValue]":
        """See `Client.ask_request`."""
        return self._with_progress(
            lambda report: self._client.ask_request(
                request, timeout_s=timeout_s, trace=trace, on_progress=report
            ),
            on_progress,
        )

    def publish(self, request: Request, *, trace: Trace | None = None) -> Published:
        """See `Client.publish`."""
        return self._thread.call(self._client.publish(request, trace=trace))

    def outcome_of(
        self,
        request_id: str,
        workflow_id: str,
        *,
        response_model: TypeForm[AnyAnswerT] = JsonValue,  # type: ignore[assignment]
        timeout_s: float | None = TIMEOUT_S_DEFAULT,
        request: Request | None = None,
    ) -> "TypedOutcome[AnyAnswerT]":
        """See `Client.outcome_of`."""
        return self._thread.call(
            self._client.outcome_of(
                request_id,
                workflow_id,
                response_model=response_model,
                timeout_s=timeout_s,
                request=request,
            )
        )

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

    def approve(
        self,
        asked: ApprovalRequested,
        *,
        by: str,
        reason: str,
        args: Mapping[str, JsonValue] | None = None,
    ) -> PublishedControl:
        """See `Client.approve`."""
        return self._thread.call(self._client.approve(asked, by=by, reason=reason, args=args))

    def deny(self, asked: ApprovalRequested, *, by: str, reason: str) -> PublishedControl:
        """See `Client.deny`."""
        return self._thread.call(self._client.deny(asked, by=by, reason=reason))

    def answer(self, asked: InputRequested, value: JsonValue, *, by: str) -> PublishedControl:
        """See `Client.answer`."""
        return self._thread.call(self._client.answer(asked, value, by=by))

    def effect_of(
        self, published: PublishedControl, *, timeout_s: float | None = EFFECT_TIMEOUT_S_DEFAULT
    ) -> ControlApplied | None:
        """See `Client.effect_of`."""
        return self._thread.call(self._client.effect_of(published, timeout_s=timeout_s))

    # End of what is written.

    def _with_progress(
        self,
        work: Callable[[Callable[[Any], None] | None], Coroutine[Any, Any, T]],
        on_progress: Callable[[Any], None] | None,
    ) -> T:
        """The result of the work, whose progress is reported in this thread."""
        if on_progress is None:
            return self._thread.call(work(None))
        queue: SimpleQueue[Any] = SimpleQueue()
        future = self._thread.begin(work(queue.put))
        future.add_done_callback(lambda _: queue.put(None))
        try:
            while (step := queue.get()) is not None:
                on_progress(step)
            return self._thread.result_of(future)
        except BaseException:
            future.cancel()
            raise


async def _next(events: AsyncIterator[Followed]) -> Followed | None:
    return await anext(events, None)
