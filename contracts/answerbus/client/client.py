"""The client: ask for a typed answer and wait for it, or subscribe to typed answers."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Self, cast, overload

from pydantic import JsonValue
from typing_extensions import TypeForm, TypeVar, Unpack

from answerbus import plugins
from answerbus.approving import approval_of
from answerbus.client.answer_type import AnswerType, TypedOutcome
from answerbus.client.ask_many import JobProgressCallback, ask_many
from answerbus.client.ask_options import AskOptions, JobOptions, make_request
from answerbus.client.bus import Bus
from answerbus.client.connection import BusConnection
from answerbus.client.controls import PublishedControl
from answerbus.client.diagnosis import OptionNames
from answerbus.client.follow import Followed
from answerbus.client.follow_up import valid_answer
from answerbus.client.job import CONCURRENCY_DEFAULT, JobOutcomes, JobRequests, Row
from answerbus.client.progress import ProgressCallback, Published
from answerbus.client.request_id import new_id
from answerbus.client.subscription import Subscription
from answerbus.client.timeout import TIMEOUT_S_DEFAULT, TimeLeft, Timeout, timeout_s_of
from answerbus.client.turns import in_turns
from answerbus.control import (
    ApprovalRequested,
    Cancel,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.limits import REASON_BYTES_MAX
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import DEAD_LETTERS, PREFIX_DEFAULT, REFUSALS, RESULTS, Topic
from answerbus.trace import Trace
from answerbus.wire import clip

AnswerT = TypeVar("AnswerT", default=str)
AnyAnswerT = TypeVar("AnyAnswerT", default=JsonValue)
EFFECT_TIMEOUT_S_DEFAULT = 30.0


class Client:
    """A connection to the bus for any number of concurrent asks; use it with `async with`.

    `registry` maps types to contracts; by default it has the installed ones, plugins included, and
    PluginError is raised for a plugin that cannot be used. `kafka` are further options for all
    aiokafka clients, such as `security_protocol`; `option_names` are their names in messages.
    `client_rack` is the rack it runs in: it reads from a replica there if the brokers offer that
    (aiokafka 0.14 or newer).
    Every method raises BusUnavailable if Kafka or a topic cannot be used.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        topic_prefix: str = PREFIX_DEFAULT,
        registry: Registry | None = None,
        option_names: OptionNames | None = None,
        client_rack: str | None = None,
        **kafka: Any,
    ) -> None:
        names = option_names or OptionNames()
        self._bus = Bus(bootstrap_servers, topic_prefix, kafka, names, client_rack)
        self._connection = BusConnection(self._bus)
        self._registry = plugins.installed() if registry is None else registry

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._connection.__aexit__(*raised)

    async def ask(
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
        """Publish a request and wait for its outcome, at most `timeout_s` (None: for ever).

        Kafka has the same time to confirm the request first, but at least 5 s; after that,
        BusUnavailable is raised. A request that was asked before (the same `request_id` and
        `workflow_id`) returns its outcome of the last 24 h. Without `timeout_s` it waits 120 s, and
        for a run until 60 s after its deadline (`ttl_s`).
        Without a `workflow_id` the request is a workflow of its own: see docs/budgets.md.
        The answer is a `response_model`: the published type of a registered contract, any other
        type with a JSON Schema (`Specialist[T]` lets the model report failure), or text by default.
        If a validator of your own type refuses the answer, the model is asked again with the
        validator's message, on the budget of the workflow: see docs/own-rules.md.
        `trace` is the span that asks; see `answerbus.trace.read_trace`. `on_progress` is called
        with a Published, with the RetryRequest of each further attempt (where the client may read
        the retries topic), and with a Waiting every second; what it raises ends the wait.
        Raises NoAnswerYet at the time-out, and ValueError for an invalid request.
        """
        answers = AnswerType.of(response_model, self._registry)
        request = make_request(instructions, workflow_id, answers.ref, new_id(), asking)
        left_s = TimeLeft(timeout_s_of(timeout_s, request), time.monotonic)

        async def once(asked: Request) -> AnyOutcome:
            return await self._connection.ask(asked, left_s(), trace, on_progress)

        return await valid_answer(request, answers, once)

    async def ask_many(
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
        """Ask the same of each row, and return all outcomes in the order of the rows.

        The members of a row are facts, in addition to the shared `facts`. At most `concurrency`
        requests wait at a time, in any order, in one workflow named like the job, so that all share
        one `budget`; where that names no attempts, or there is none, each row has three.
        A job that is started again with the same `job_id`, also after a crash, asks only the rows
        without an outcome in the last 7 days; ids are digests of what is asked, so that changed
        rows and instructions are asked. `on_progress` is called with a JobProgress after each row;
        `show_bar` draws a bar. Waits without a limit; raises BusUnavailable, and ValueError for
        an invalid row or more than 100,000 before one is asked.
        """
        answers = AnswerType.of(response_model, self._registry)
        name = f"job-{new_id()}" if job_id is None else job_id
        requests, asked = JobRequests(name, instructions, answers.ref, facts, asking), list[Row]()
        async for row in in_turns(rows):
            requests.add(row)
            asked.append(row)
        return await ask_many(
            self._connection,
            name,
            asked,
            requests,
            answers,
            concurrency,
            on_progress,
            is_new=job_id is None,
        )

    async def ask_request(
        self,
        request: Request,
        *,
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> "TypedOutcome[JsonValue]":
        """Publish a prepared request and wait for its outcome, whose answer stays JSON."""
        seconds = timeout_s_of(timeout_s, request)
        return await self._connection.ask(request, seconds, trace, on_progress)

    async def publish(self, request: Request, *, trace: Trace | None = None) -> Published:
        """Publish, and wait for the broker alone; raises ValueError if it is too large.

        After any other error it is unknown whether it was published. Publishing it again,
        unchanged, is safe: workers drop a second request with the same id and body.
        """
        return await self._connection.publish(request, trace)

    async def outcome_of(
        self,
        request_id: str,
        workflow_id: str,
        *,
        response_model: TypeForm[AnyAnswerT] = JsonValue,  # type: ignore[assignment]
        timeout_s: float | None = TIMEOUT_S_DEFAULT,
        request: Request | None = None,
    ) -> "TypedOutcome[AnyAnswerT]":
        """The outcome of a request that anyone published, from the start of retention on.

        Waits for it if there is none yet; raises NoAnswerYet at the time-out.
        With the `request`, as a client published it, outcomes of other records under its id do not
        count. Without it, a dead letter about an invalid record does, if there is no other yet.
        Raises ValueError if the request has other ids.
        """
        _check_ids(request, request_id, workflow_id)
        outcome = await self._connection.find(request_id, workflow_id, timeout_s, request)
        if cast("object", response_model) is JsonValue:
            return cast("TypedOutcome[AnyAnswerT]", outcome)
        return AnswerType.of(response_model, self._registry).typed_outcome(outcome)

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
    ) -> Subscription[AnswerT]: ...

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
    ) -> Subscription[AnswerT, DeadLetter]: ...

    def subscribe(
        self,
        *,
        response_model: TypeForm[AnswerT],
        group_id: str,
        refusals: bool = True,
        dead_letters: bool = False,
        children: bool = False,
        **consumer: Any,
    ) -> Subscription[AnswerT, Any]:
        """Results of one type of answers, with refusals and dead letters if wanted.

        Those of requests that asked for this type: see Subscription. `children` includes requests
        that runs asked.
        Subscribers with the same `group_id` share the work; a new group begins at the start of
        retention. `consumer` are further options of aiokafka's consumer, such as
        `max_poll_interval_ms` (300,000) if work on one item takes longer than that.
        """
        if not isinstance(group_id, str) or not group_id:  # aiokafka would fail in its own words
            raise ValueError(f"`group_id` is the name of a consumer group, and not {group_id!r}")
        answers = AnswerType.of(response_model, self._registry)
        wanted = {RESULTS: True, REFUSALS: refusals, DEAD_LETTERS: dead_letters}
        topics = [topic for topic, is_wanted in wanted.items() if is_wanted]
        return self._subscription(answers, group_id, topics, consumer, children=children)

    def follow(
        self,
        request_id: str,
        workflow_id: str,
        *,
        after: str | None = None,
        since: datetime | None = None,
        request: Request | None = None,
    ) -> AsyncIterator[Followed]:
        """What a run does, as it comes: steps, ends of calls, approvals asked for, controls.

        Its outcome comes last and ends the iteration. It begins at the start of retention, with
        `since` at a time by Kafka's clock, and with `after` behind an earlier item, also of another
        process: a `position` is a text that can be stored. It waits without a limit for further
        events, also while Kafka is unavailable. A wait that is cancelled, such as by a time-out,
        ends the iteration without the outcome: go on with `after`.
        With the `request`, as a client published it, dead letters about other records under its id
        do not end the iteration. Without it, one about an invalid record does until a step is seen.
        Raises ValueError if the request has other ids.
        """
        _check_ids(request, request_id, workflow_id)
        return self._connection.follow(request_id, workflow_id, after, since, request)

    async def position(self, workflow_id: str) -> str:
        """The `after` with which `follow` skips all events up to now."""
        return await self._connection.position(workflow_id)

    async def cancel(
        self, request_id: str, workflow_id: str, *, by: str, reason: str
    ) -> PublishedControl:
        """End an open request, a run or not, with its calls: a dead letter `cancelled`.

        A request that no worker has read yet is cancelled when it is read; one with an outcome
        stays as it is. `effect_of` returns which it was.
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
        """End all requests of a workflow that are open now."""
        return await self._connection.control(
            Cancel(scope="workflow", workflow_id=workflow_id, by=by, reason=reason, at=_now())
        )

    async def approve(
        self,
        asked: ApprovalRequested,
        *,
        by: str,
        reason: str,
        args: Mapping[str, JsonValue] | None = None,
    ) -> PublishedControl:
        """Let a call run once that awaits approval, with the arguments in `asked`, or with `args`.

        Changed arguments must fit the schema of the tool, else the effect is `invalid` with
        problems, and are checked by the policy of the agent: `denied` ends the call. Raises
        ValidationError for more than 64 KiB.
        Needs the right to write `approvals`, which operators have and applications do not. In the
        event, `by` is the user of Kafka, and `said_by` is this `by`.
        """
        return await self._decide(asked, "approved", by, reason, args)

    async def deny(self, asked: ApprovalRequested, *, by: str, reason: str) -> PublishedControl:
        """Deny a call that awaits approval; the run goes on, and its model is shown the denial."""
        return await self._decide(asked, "denied", by, reason)

    async def answer(self, asked: InputRequested, value: JsonValue, *, by: str) -> PublishedControl:
        """Answer a question of a run; the first answer that fits its schema counts.

        `None` declines to answer the question of a tool (`asked.tool`).

        Needs the right to write `approvals`. Raises ValidationError for a value of more than
        64 KiB. The effect is `answered`, `invalid` with problems, or `nothing`: too late.
        """
        return await self._connection.control(
            Input(
                call_id=asked.call_id,
                value=value,
                number=asked.number,
                by=clip(self._connection.principal, REASON_BYTES_MAX),
                said_by=by,
                workflow_id=asked.workflow_id,
                at=_now(),
            )
        )

    async def effect_of(
        self, published: PublishedControl, *, timeout_s: float | None = EFFECT_TIMEOUT_S_DEFAULT
    ) -> ControlApplied | None:
        """The effect of a control, once its lane has read it; None if not within `timeout_s`."""
        return await self._connection.effect_of(published, timeout_s)

    async def _decide(
        self,
        asked: ApprovalRequested,
        decision: Literal["approved", "denied"],
        by: str,
        reason: str,
        args: Mapping[str, JsonValue] | None = None,
    ) -> PublishedControl:
        return await self._connection.control(
            approval_of(
                asked,
                decision,
                args,
                by=clip(self._connection.principal, REASON_BYTES_MAX),
                said_by=by,
                reason=reason,
                at=_now(),
            )
        )

    def _subscription(  # what a FakeClient does in its own way
        self,
        answers: AnswerType[AnswerT],
        group_id: str,
        topics: Sequence[Topic],
        options: Mapping[str, Any],
        *,
        children: bool,
    ) -> Subscription[AnswerT, Any]:
        return Subscription(self._bus, answers, group_id, options, topics, children=children)


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def _check_ids(request: Request | None, request_id: str, workflow_id: str) -> None:
    if request is not None and RequestKey.of(request) != RequestKey(workflow_id, request_id):
        raise ValueError("`request` has other ids than those that are asked for")
