"""A Client without Kafka, workers and models, for the tests of services that use one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, cast

from typing_extensions import TypeForm, Unpack

from answerbus.cassette import Cassette
from answerbus.client.answer_type import AnswerT, AnswerType
from answerbus.client.ask_options import AskOptions, make_request
from answerbus.client.bus import Bus
from answerbus.client.client import Client
from answerbus.client.connection import request_record
from answerbus.client.follow import StepEvent
from answerbus.client.subscription import DeadLetterT, Item, Subscription, item_of
from answerbus.client.testing.cassettes import CassettePlayer
from answerbus.client.testing.errors import FakeClientError
from answerbus.client.testing.fake_bus import FakeBus
from answerbus.client.testing.fake_connection import FakeConnection
from answerbus.client.testing.replies import Reply
from answerbus.control import Approval, Cancel, Input
from answerbus.envelope import encode
from answerbus.outcome import Result
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.topics import PREFIX_DEFAULT, RESULTS, STEPS, Topic


class FakeSubscription(Subscription[AnswerT, DeadLetterT]):
    """Ends when it has delivered all outcomes that there are, so that a test goes on.

    What is not done, since the loop was left with an exception, comes again to the next
    subscription of the group, as on the bus.
    """

    def __init__(
        self,
        bus: Bus,
        fake: FakeBus,
        answers: AnswerType[AnswerT],
        group_id: str,
        topics: Sequence[Topic],
        *,
        children: bool,
    ) -> None:
        super().__init__(bus, answers, group_id, {}, topics, children=children)
        self._fake = fake
        self._names = {topic.full_name(bus.prefix) for topic in topics}
        self._next: int | None = None

    async def __aenter__(self) -> Self:
        self._next = self._fake.done.get(self._group_id, 0)
        return self

    async def __aexit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if raised is None:
            self._note_done()
        self._next = None

    async def __anext__(self) -> "Item[AnswerT] | DeadLetterT":
        if self._next is None:
            raise RuntimeError("A Subscription is used inside of `async with ... as outcomes:`.")
        self._note_done()
        while self._next < len(self._fake.outcomes):
            record = self._fake.outcomes[self._next]
            self._next += 1
            if record.topic not in self._names:
                continue
            item = item_of(record, self._answers, children=self._children)
            if item is not None:
                return cast("Item[AnswerT] | DeadLetterT", item)
        self._note_done()
        raise StopAsyncIteration

    def _note_done(self) -> None:
        """All that was handed out before."""
        if self._next is not None:
            self._fake.done[self._group_id] = self._next


NOW = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClient(Client):
    """Requests go through the same checks and codec as on the bus, and end as the test prepares.

        fake = FakeClient()
        fake.prepare(answered(DepBump(...)), refused("No release is fixed."))
        await propose(fake)  # the service under test; `client: Client` takes it
        assert fake.requests[0].profile == "default"

    What workers decide before they call a model is decided here, too: a request id with another
    body, a contract that is unknown, a workflow that has spent its attempts, and, where `profiles`
    or `agents` are given, one that is not among them end as dead letters; a copy of a request is
    dropped. Nothing waits: where no outcome is due, NoAnswerYet is raised at once.
    """

    def __init__(
        self,
        *,
        registry: Registry | None = None,
        profiles: Collection[str] | None = None,
        agents: Collection[str] | None = None,
        now: datetime = NOW,
    ) -> None:
        super().__init__("a fake", registry=registry)
        self._fake = FakeBus(self._registry, PREFIX_DEFAULT, profiles, now, agents)
        self._connection = FakeConnection(self._bus, self._fake)

    @property
    def requests(self) -> tuple[Request, ...]:
        """All that was published, in order, by `deliver` too."""
        return tuple(self._fake.requests)

    @property
    def controls(self) -> tuple[Approval | Input | Cancel, ...]:
        """All approvals, denials and cancellations that were published, in order."""
        return tuple(self._fake.controls)

    @property
    def unused(self) -> int:
        """How many prepared outcomes no request has taken so far."""
        return len(self._fake.prepared)

    def prepare(self, *replies: Reply) -> None:
        """The next requests end as these, in order."""
        self._fake.prepared.extend(replies)

    def prepare_by(self, choose: Callable[[Request], Reply]) -> None:
        """Requests that `prepare` has nothing for end as this function says."""
        self._fake.prepared_by = choose

    def play(self, cassette: Cassette) -> None:
        """Requests end as they were recorded; one that was not recorded raises CassetteError."""
        self.prepare_by(CassettePlayer(cassette).reply_to)

    def deliver(
        self,
        reply: Reply,
        *,
        response_model: TypeForm[Any],
        workflow_id: str = "workflow",
        **asking: Unpack[AskOptions],
    ) -> None:
        """The outcome of another service's request, for `subscribe` and `outcome_of`."""
        answers = AnswerType.of(response_model, self._registry)
        new_id = f"delivered-{len(self._fake.outcomes)}"
        message = "As another service asks."
        request = make_request(message, workflow_id, answers.ref, new_id, asking)
        outcome = self._fake.take(request_record(request, None), reply).outcome
        if isinstance(outcome, Result) and not isinstance(answers.typed_outcome(outcome), Result):
            raise FakeClientError(
                "The delivered answer does not fit the type that was asked for: "
                f"{answers.typed_outcome(outcome)} Where a subscriber's way with such an answer "
                "is what you test, deliver it as `unvalidated`."
            )

    def deliver_step(self, event: StepEvent) -> None:
        """The events of a run before its outcome, for `follow` and `effect_of`."""
        record = encode(event)
        self._fake.put(STEPS.full_name(PREFIX_DEFAULT), record.value, record.headers)

    def deliver_bytes(self, value: bytes | None, topic: Topic = RESULTS) -> None:
        """A record that may be anything, for what a subscriber does with an Undecodable."""
        self._fake.put(topic.full_name(PREFIX_DEFAULT), value, [])

    def _subscription(
        self,
        answers: AnswerType[AnswerT],
        group_id: str,
        topics: Sequence[Topic],
        options: Mapping[str, Any],  # noqa: ARG002 - of a consumer that is not there
        *,
        children: bool,
    ) -> Subscription[AnswerT, Any]:
        return FakeSubscription(self._bus, self._fake, answers, group_id, topics, children=children)
