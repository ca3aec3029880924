"""The client: ask for a typed answer and wait for it, or subscribe to typed answers."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, overload

from pydantic import JsonValue
from typing_extensions import TypeForm, Unpack

from answerbus import plugins
from answerbus.client.answer_type import AnswerType, TypedTerminal
from answerbus.client.ask_options import AskOptions, make_request
from answerbus.client.bus import Bus
from answerbus.client.connection import Connection
from answerbus.client.diagnosis import OptionNames
from answerbus.client.open_requests import OpenRequests
from answerbus.client.progress import Published, Tell
from answerbus.client.request_id import RANDOM_BYTES, uuid7
from answerbus.client.subscription import Subscription
from answerbus.client.timeout import TIMEOUT_S_DEFAULT, Timeout, timeout_s_of
from answerbus.dead_letter import DeadLetter
from answerbus.event import Terminal
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.topics import DEAD_LETTERS, PREFIX_DEFAULT, REFUSALS, RESULTS, Topic
from answerbus.trace import Trace

AnswerT = TypeVar("AnswerT")


class Client(OpenRequests):
    """A connection to the bus for any number of concurrent asks; use it with `async with`.

    `registry` says which types stand for contracts; by default those that are installed, plugins
    included, and PluginError is raised for a plugin that cannot be used. `kafka` are further
    options of all aiokafka clients, such as `security_protocol`, and `option_names` what messages
    call them. `client_rack` is where it runs: it reads from a replica there if brokers offer that.
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
        self._connection = Connection(self._bus)
        self._registry = plugins.installed() if registry is None else registry

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._connection.__aexit__(*raised)

    @overload
    async def ask(
        self,
        instructions: str,
        *,
        workflow_id: str | None = None,
        response_model: TypeForm[AnswerT],
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: Tell | None = None,
        **asking: Unpack[AskOptions],
    ) -> "TypedTerminal[AnswerT]": ...

    @overload
    async def ask(
        self,
        instructions: str,
        *,
        workflow_id: str | None = None,
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: Tell | None = None,
        **asking: Unpack[AskOptions],
    ) -> "TypedTerminal[str]": ...

    async def ask(
        self,
        instructions: str,
        *,
        workflow_id: str | None = None,
        response_model: TypeForm[Any] = str,
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: Tell | None = None,
        **asking: Unpack[AskOptions],
    ) -> "TypedTerminal[Any]":
        """Publish a request and wait for its terminal, at most `timeout_s` (None: for ever).

        A request that was asked before (the same `request_id` and `workflow_id`) gives the outcome
        that it had within the last 24 h. Without `timeout_s` it waits 120 s, and for a run until
        60 s after its deadline (`ttl_s`).
        Without a `workflow_id` the request is a workflow of its own: see docs/budgets.md.
        The answer is a `response_model`: the published type of a registered contract, any other
        type with a JSON Schema (`Specialist[T]` for one with a way out), or text if none is given.
        `trace` is the span that asks; see `answerbus.trace.read_trace`. `on_progress` is called
        with a Published, with the RetryRequest of each further attempt (where the client may read
        the retries topic), and with a Waiting every second; what it raises ends the wait.
        Raises NoAnswerYet when the time is over, and ValueError for what a request cannot say.
        """
        answers = AnswerType.of(response_model, self._registry)
        request = make_request(instructions, workflow_id, answers.ref, _new_id(), asking)
        terminal = await self.ask_request(
            request, timeout_s=timeout_s, trace=trace, on_progress=on_progress
        )
        return self._read(answers, terminal)

    async def ask_request(
        self,
        request: Request,
        *,
        timeout_s: Timeout = "default",
        trace: Trace | None = None,
        on_progress: Tell | None = None,
    ) -> "TypedTerminal[JsonValue]":
        """Publish a prepared request and wait for its terminal, whose answer stays JSON."""
        seconds = timeout_s_of(timeout_s, request)
        return await self._connection.ask(request, seconds, trace, on_progress)

    async def publish(self, request: Request, *, trace: Trace | None = None) -> Published:
        """Publish, and wait for no more than the broker; raises ValueError if it is too large.

        After another error it is unknown whether it is published. To publish it again, unchanged,
        is safe: workers drop a second request with the same id and body.
        """
        return await self._connection.publish(request, trace)

    @overload
    async def outcome_of(
        self,
        request_id: str,
        workflow_id: str,
        *,
        response_model: TypeForm[AnswerT],
        timeout_s: float | None = TIMEOUT_S_DEFAULT,
    ) -> "TypedTerminal[AnswerT]": ...

    @overload
    async def outcome_of(
        self, request_id: str, workflow_id: str, *, timeout_s: float | None = TIMEOUT_S_DEFAULT
    ) -> "TypedTerminal[JsonValue]": ...

    async def outcome_of(
        self,
        request_id: str,
        workflow_id: str,
        *,
        response_model: TypeForm[Any] | None = None,
        timeout_s: float | None = TIMEOUT_S_DEFAULT,
    ) -> "TypedTerminal[Any]":
        """The terminal of a request that anyone published, from the start of retention on.

        Waits for one that is still to come; raises NoAnswerYet when the time is over.
        """
        terminal = await self._connection.find(request_id, workflow_id, timeout_s)
        if response_model is None:
            return terminal
        return self._read(AnswerType.of(response_model, self._registry), terminal)

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

        Those of requests that asked for this type: see Subscription. With `children` those that
        runs asked in their turn, too.
        All that subscribe with the same `group_id` share the work; a new group begins at the start
        of retention. `consumer` are further options of aiokafka's consumer, such as
        `max_poll_interval_ms` (300,000) if work on one item takes longer than that.
        """
        answers = AnswerType.of(response_model, self._registry)
        wanted = {RESULTS: True, REFUSALS: refusals, DEAD_LETTERS: dead_letters}
        topics = [topic for topic, is_wanted in wanted.items() if is_wanted]
        return self._subscription(answers, group_id, topics, consumer, children=children)

    # What a FakeClient does in its own way.

    def _read(self, answers: AnswerType[AnswerT], terminal: Terminal) -> "TypedTerminal[AnswerT]":
        return answers.read(terminal)

    def _subscription(
        self,
        answers: AnswerType[AnswerT],
        group_id: str,
        topics: Sequence[Topic],
        options: Mapping[str, Any],
        *,
        children: bool,
    ) -> Subscription[AnswerT, Any]:
        return Subscription(self._bus, answers, group_id, options, topics, children=children)


def _new_id() -> str:
    return str(uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES)))
