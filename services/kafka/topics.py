"""Topics on a broker through aiokafka's admin client: look at them, create them, change them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.topics import TOPICS, Topic
from services.kafka.planning.plan import Create, Found, Grow, Step, TopicChange
from services.settings.settings import SetUpError

ANSWER_TIMEOUT_S = 60.0  # aiokafka gives up before; unless it waits for ever
LOOKS_MAX = 200
_LOOK_AGAIN_S = 0.1
_BROKERS_DEFAULT = -1
_SET_ON_TOPIC = 1  # Kafka's name of this source of a setting: DYNAMIC_TOPIC_CONFIG
_ASK_DOCTOR = "; `answerbus doctor --as admin` names the rights that are missing"
_ALREADY_THERE = 36  # TOPIC_ALREADY_EXISTS: someone else applies the same table


class TopicsOnBroker:
    """The topics of our table on one broker. Methods raise SetUpError when Kafka refuses."""

    def __init__(
        self, admin: AIOKafkaAdminClient, prefix: str, topics: Sequence[Topic] = TOPICS
    ) -> None:
        self._admin = admin
        self._names = {topic: topic.full_name(prefix) for topic in topics}

    async def look(self) -> Mapping[Topic, Found]:
        # All of them: to ask for one by name may create it.
        described = await _answered(self._admin.describe_topics())
        there = {topic["topic"]: topic["partitions"] for topic in described}
        ours = {topic: there[name] for topic, name in self._names.items() if name in there}
        if not ours:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, self._names[topic]) for topic in ours]
        answers = await _answered(self._admin.describe_configs(resources))
        settings = {
            name: entries
            for answer in answers
            for _code, _text, _type, name, entries in answer.resources
        }
        return {
            topic: _found(partitions, settings[self._names[topic]])
            for topic, partitions in ours.items()
        }

    async def carry_out(
        self, steps: Sequence[Step], *, partitions: int, replication_factor: int
    ) -> None:
        """Create and change what the steps say, and wait until all topics can be seen."""
        missing = [step.topic for step in steps if isinstance(step, Create)]
        if missing:
            new = [self._new(topic, partitions, replication_factor) for topic in missing]
            answer = await _answered(self._admin.create_topics(new))
            _refuse(
                "create", (error for error in answer.topic_errors if error[1] != _ALREADY_THERE)
            )
            await self._until_visible(missing)
        if few := [step.topic for step in steps if isinstance(step, Grow)]:
            await self.grow(few, partitions)
        changes = [
            ConfigResource(ConfigResourceType.TOPIC, self._names[step.topic], dict(step.settings))
            for step in steps
            if isinstance(step, TopicChange)
        ]
        if changes:
            for answer in await _answered(self._admin.alter_configs(changes)):
                _refuse("change", ((name, code, text) for code, text, _, name in answer.resources))

    async def grow(self, topics: Sequence[Topic], partitions: int) -> None:
        """Give topics more partitions, and wait until they can be seen."""
        more = {self._names[topic]: NewPartitions(partitions) for topic in topics}
        await _answered(self._admin.create_partitions(more))
        for _ in range(LOOKS_MAX):
            described = await _answered(self._admin.describe_topics())
            there = {it["topic"]: it["partitions"] for it in described if it["topic"] in more}
            if all(
                len(found) >= partitions and all(one["leader"] >= 0 for one in found)
                for found in there.values()
            ):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise SetUpError("Kafka does not show the new partitions yet: run this again soon.")

    def _new(self, topic: Topic, partitions: int, replication_factor: int) -> NewTopic:
        # aiokafka takes "the broker's default" only with assignments, and empty ones mean none.
        assignments: dict[int, list[int]] | None = (
            {} if replication_factor == _BROKERS_DEFAULT else None
        )
        return NewTopic(
            self._names[topic],
            topic.partitions or partitions,
            replication_factor,
            assignments,
            dict(topic.settings()),
        )

    async def _until_visible(self, topics: Iterable[Topic]) -> None:
        names = {self._names[topic] for topic in topics}
        for _ in range(LOOKS_MAX):
            if names <= set(await _answered(self._admin.list_topics())):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise SetUpError(
            "Kafka has created the topics but does not show them yet, or does not let us see them: "
            "look again soon, or ask `answerbus doctor --as admin`."
        )


@asynccontextmanager
async def topics_on(bus: Bus, topics: Sequence[Topic] = TOPICS) -> AsyncIterator[TopicsOnBroker]:
    """The topics on the broker of a bus; raises BusUnavailable."""
    async with bus.admin() as admin:
        yield TopicsOnBroker(admin, bus.prefix, topics)


async def _answered(request: Coroutine[Any, Any, Any]) -> Any:
    return await bounded(request, ANSWER_TIMEOUT_S)


def _found(partitions: Sequence[Mapping[str, Any]], entries: Iterable[tuple[Any, ...]]) -> Found:
    known = [(name, value, source) for name, value, _read_only, source, *_ in entries]
    return Found(
        len(partitions),
        in_force={name: value for name, value, _ in known if value is not None},
        own={name: value for name, value, source in known if source == _SET_ON_TOPIC},
        replicas=min(len(partition["replicas"]) for partition in partitions),
    )


def _refuse(deed: str, results: Iterable[tuple[str, int, str | None]]) -> None:
    for name, code, text in results:
        if code:
            message = str(text or code).rstrip(".")
            advice = _ASK_DOCTOR if code == TopicAuthorizationFailedError.errno else ""
            raise SetUpError(f"Kafka does not let us {deed} the topic {name}: {message}{advice}.")
