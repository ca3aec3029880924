"""One Kafka as a client sees it: addresses, names, options, and its errors in words."""

import getpass
import re
from collections.abc import (
    AsyncIterator,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)

from answerbus.client.bootstrap import (
    SERVERS_S,
    AIOKafkaAdminClient,
    check_addresses,
    share_start,
)
from answerbus.client.bounded import bounded, close, wait_for_end
from answerbus.client.connection_check import diagnosis_at
from answerbus.client.diagnosis import (
    LIMITS_OF_BROKERS,
    Diagnosis,
    OptionNames,
    describe_error,
    diagnosis_of,
)
from answerbus.client.errors import BusRefused, BusUnavailable, LanesDisagree
from answerbus.client.layout import written_lanes
from answerbus.client.records.consumer import RecordConsumer
from answerbus.control import UNPROVED
from answerbus.masking import Mask
from answerbus.partition import Layout
from answerbus.private.lane_records import Agreement, agreed
from answerbus.topics import (
    EVERY_TOPIC,
    LEDGER,
    PREFIX_DEFAULT,
    RUN_TOPICS,
    TOPICS,
    Topic,
    card_owner,
    tool_calls,
    toolset_cards,
)

START_TIMEOUT_S = SERVERS_S
_BY_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})  # mechanisms of SASL
# A broker answers the requests of a connection one by one: while a fetch waits there for records,
# any other request, such as for the end of a partition, waits with it.
FETCH_WAIT_MS = 50
_SILENCE = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    OSError,  # TimeoutError is one
    RequestTimedOutError,
)


class _Starting(Protocol):
    def start(self) -> Coroutine[Any, Any, None]: ...
    def stop(self) -> Coroutine[Any, Any, None]: ...


StartingT = TypeVar("StartingT", bound=_Starting)


@dataclass(frozen=True)
class Bus:
    """Where the topics are; `options` go to every aiokafka client as they are.

    `names` are what messages call those options. `rack` is where consumers are: they read from a
    replica there, if the brokers offer that.
    """

    servers: str | Sequence[str]
    prefix: str
    options: Mapping[str, Any]
    names: OptionNames = field(default_factory=OptionNames)
    rack: str | None = None

    def __post_init__(self) -> None:
        """Raises BusUnavailable for invalid addresses."""
        try:
            check_addresses(self.servers)
        except ValueError:
            raise BusUnavailable(
                f"{self.names.servers} must be HOST:PORT, or several with commas between them, "
                "such as kafka-1:9092,kafka-2:9092."
            ) from None

    @property
    def principal(self) -> str:
        """The user that this program authenticates as by password; else its system user."""
        user, options = self.options.get("sasl_plain_username"), self.options
        is_sasl = str(options.get("security_protocol", "")).startswith("SASL")
        if user and is_sasl and options.get("sasl_mechanism", "PLAIN") in _BY_PASSWORD:
            return f"kafka:{user}"
        try:
            return f"{UNPROVED}{getpass.getuser()}"
        except (KeyError, OSError, ImportError):  # it has no name
            return f"{UNPROVED}unknown"

    def place(self, topic: Topic, partition: int) -> TopicPartition:
        """A partition of a topic on this broker."""
        return TopicPartition(topic.full_name(self.prefix), partition)

    def places(self, topics: Iterable[Topic], partitions: Collection[int]) -> list[TopicPartition]:
        """These partitions of each of the topics."""
        return [self.place(topic, partition) for topic in topics for partition in partitions]

    def producer(self) -> AIOKafkaProducer:
        """A producer whose records are safe once they are acknowledged."""
        made = AIOKafkaProducer(bootstrap_servers=self.servers, acks="all", **self.options)
        share_start(made.client)
        return made

    def consumer(self, **choices: Any) -> RecordConsumer:
        """A consumer of committed records (unless chosen otherwise), which commits no offset."""
        rack = {} if self.rack is None else {"client_rack": self.rack}  # from aiokafka 0.14 on
        return RecordConsumer(
            bootstrap_servers=self.servers,
            enable_auto_commit=False,
            **{"isolation_level": "read_committed", **rack, **self.options, **choices},
        )

    @asynccontextmanager
    async def running(self, client: StartingT) -> AsyncIterator[StartingT]:
        """The client, started; stopped in any case, since a failed start leaves connections."""
        try:
            async with self.connecting():
                await bounded(client.start(), START_TIMEOUT_S, wait_for_end)
            yield client
        finally:
            await close(client.stop())

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """An admin client, started, and closed in any case. Raises BusUnavailable."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.servers, **self.options)
        async with self.connecting():
            try:
                await bounded(admin.start(), START_TIMEOUT_S)
                yield admin
            finally:
                await close(admin.close())

    @asynccontextmanager
    async def connecting(self) -> AsyncIterator[None]:
        """As `explained`, while clients connect: the cause of a silent broker is looked for."""
        try:
            with self.explained():
                yield
        except BusRefused:
            raise
        except BusUnavailable as error:
            cause = error.__cause__
            if not isinstance(cause, _SILENCE) or isinstance(cause, TimeoutError):
                raise  # a broker that was silent until the time-out would be so again
            refusal = await diagnosis_at(self.servers, self.options, self.names)
            if refusal is None:
                raise
            raise self._refused(refusal) from error.__cause__

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns what Kafka's clients raise into BusUnavailable."""
        try:
            yield
        except (KafkaError, OSError) as error:
            if isinstance(error, BusUnavailable):
                raise
            refusal = diagnosis_of(error)
            if refusal:
                raise self._refused(refusal) from error
            mask = Mask([self.options.get("sasl_plain_password")])  # a broker may say it again
            message = (
                "it does not answer" if isinstance(error, _SILENCE) else mask(describe_error(error))
            )
            advice = ": see that a broker runs there, and that address and credentials are right"
            raise BusUnavailable(
                f"Kafka at {self.servers} cannot be used, {message}"
                f"{'' if type(error) in LIMITS_OF_BROKERS else advice}."
            ) from error

    def _refused(self, refusal: Diagnosis) -> BusRefused:
        return BusRefused(f"Kafka at {self.servers} cannot be used, {refusal}.")

    async def counts(self, *topics: Topic) -> Mapping[Topic, int]:
        """How many partitions each of the topics has; BusUnavailable if one is missing."""
        return self._of(await self._counts(), topics)

    async def places_of(self, *topics: Topic) -> Mapping[TopicPartition, Topic]:
        """All partitions of the topics, each with its topic; BusUnavailable if one is missing."""
        counts = await self.counts(*topics)
        return {self.place(it, n): it for it, count in counts.items() for n in range(count)}

    async def present(self, *topics: Topic) -> tuple[Topic, ...]:
        """Those of the topics that are there: not every deployment has agents."""
        there = await self._counts()
        return tuple(topic for topic in topics if topic.full_name(self.prefix) in there)

    async def has_topic(self, name: str) -> bool:
        """Whether there is a topic of this full name, which may be another's than ours."""
        return name in await self._counts()

    async def card_topics(self) -> tuple[Topic, ...]:
        """The topics of cards that are there, by the names of their toolsets."""
        found = (topic_named(name, self.prefix) for name in sorted(await self._counts()))
        return tuple(topic for topic in found if topic and card_owner(topic))

    async def deployed(self) -> Mapping[Topic, int]:
        """How many partitions each of our topics has that is there, those of toolsets included.

        BusUnavailable if one of TOPICS is missing.
        """
        there = await self._counts()
        others = {
            topic: there[name]
            for name in sorted(there)
            if (topic := topic_named(name, self.prefix)) is not None and topic not in TOPICS
        }
        return {**self._of(there, TOPICS), **others}

    async def layout(self, *topics: Topic) -> Layout:
        """How many partitions the deployment uses, of as many as its topics have or more.

        Before its first lane was opened, and where the ledger may not be read, the topic with the
        fewest partitions says it. BusUnavailable if one of `topics` is missing or has too few,
        LanesDisagree if they contradict each other.
        """
        layout, _ = await self.layout_and_lanes(*topics)
        return layout

    async def layout_and_lanes(self, *topics: Topic) -> tuple[Layout, Agreement]:
        """The same beside what the lanes record, which are read once."""
        there = await self._counts()
        counts = self._of(there, topics)
        written = await self._written(there.get(LEDGER.full_name(self.prefix), 0))
        if written.is_tied:
            raise LanesDisagree(_sentence(str(written)))
        found = written.layout
        ours = (there.get(topic.full_name(self.prefix)) for topic in TOPICS)
        layout = found or Layout(min(count for count in ours if count is not None))
        for topic, count in counts.items():
            if count < layout.partitions:
                raise BusUnavailable(
                    f"The topic {topic.full_name(self.prefix)} at {self.servers} has {count} "
                    f"partitions and this deployment has {layout.partitions}: `answerbus topics "
                    "apply` gives it the missing ones, and keeps what it holds."
                )
        return layout, written

    async def lanes(self) -> Agreement:
        """The deployment as the lanes record it, and the lanes that differ."""
        there = await self._counts()
        return await self._written(there.get(LEDGER.full_name(self.prefix), 0))

    async def _written(self, partitions: int) -> Agreement:
        """The lanes' records in the ledger; none where there is none, or no right to read it."""
        if partitions:
            consumer = self.consumer(fetch_max_wait_ms=FETCH_WAIT_MS)
            async with self.running(consumer):
                with self.explained(), suppress(TopicAuthorizationFailedError):
                    ledger = LEDGER.full_name(self.prefix)
                    return agreed(await written_lanes(consumer, ledger, partitions), partitions)
        return agreed({}, partitions)

    def _of(self, there: Mapping[str, int], topics: Sequence[Topic]) -> Mapping[Topic, int]:
        for topic in topics:
            if (name := topic.full_name(self.prefix)) not in there:
                runs = " --runs" if topic in RUN_TOPICS else ""
                raise BusUnavailable(
                    f"There is no topic {name} at {self.servers}, or no right to see it: create "
                    f"the topics with `answerbus topics apply{runs}`, or correct the topic prefix."
                )
        return {topic: there[topic.full_name(self.prefix)] for topic in topics}

    async def _counts(self) -> Mapping[str, int]:
        """How many partitions all topics have: to ask for one by name may create it."""
        async with self.admin() as admin:
            found = await bounded(admin.describe_topics(), START_TIMEOUT_S)
        return {topic["topic"]: len(topic["partitions"]) for topic in found}


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def topic_named(full_name: str, prefix: str = PREFIX_DEFAULT) -> Topic | None:
    """The topic of this name on the broker; None for topics that are not ours."""
    found = next((topic for topic in EVERY_TOPIC if topic.full_name(prefix) == full_name), None)
    own = re.fullmatch(
        rf"{re.escape(prefix)}\.(tools|toolsets)\.([a-z0-9][a-z0-9_\-]*)\.v1", full_name
    )
    if own is None:
        return found
    return tool_calls(own[2]) if own[1] == "tools" else toolset_cards(own[2])
