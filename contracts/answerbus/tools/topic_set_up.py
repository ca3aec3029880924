"""Creates the topics of tools that are missing, where the server may."""

from aiokafka.admin import NewTopic

from answerbus.client.bounded import bounded
from answerbus.client.bus import START_TIMEOUT_S, Bus
from answerbus.client.errors import BusUnavailable
from answerbus.topics import (
    PARTITIONS_DEFAULT,
    REQUESTS,
    TOOL_RESULTS,
    Topic,
    tool_calls,
    toolset_cards,
)

_ALREADY_THERE = 36  # TOPIC_ALREADY_EXISTS: another server of the toolset starts, too
_DEFAULT_REPLICAS = -1


def topics_of(*toolsets: str) -> list[Topic]:
    """The toolsets' own topics, of calls and cards, and that of results."""
    names = dict.fromkeys(toolsets)
    own = (topic for name in names for topic in (tool_calls(name), toolset_cards(name)))
    return [*own, TOOL_RESULTS]


async def create_missing(bus: Bus, *toolsets: str) -> None:
    """Create those topics that are missing. Raises BusUnavailable."""
    topics = topics_of(*toolsets)
    async with bus.admin() as admin:
        described = await bounded(admin.describe_topics(), START_TIMEOUT_S)
        there = {found["topic"]: len(found["partitions"]) for found in described}
        missing = [topic for topic in topics if topic.full_name(bus.prefix) not in there]
        if missing:
            lanes = there.get(REQUESTS.full_name(bus.prefix), PARTITIONS_DEFAULT)
            new = [_new(topic, bus.prefix, lanes) for topic in missing]
            answer = await bounded(admin.create_topics(new), START_TIMEOUT_S)
            _refuse(answer.topic_errors)


def _new(topic: Topic, prefix: str, lanes: int) -> NewTopic:
    # aiokafka takes "the broker's default" of replicas only with assignments, and empty ones mean
    # none. Results have as many partitions as the lanes that they come back to.
    return NewTopic(
        topic.full_name(prefix),
        topic.partitions or lanes,
        _DEFAULT_REPLICAS,
        {},
        dict(topic.settings()),
    )


def _refuse(errors: "list[tuple[str, int, str | None]]") -> None:
    for name, code, text in errors:
        if code not in (0, _ALREADY_THERE):
            raise BusUnavailable(
                f"There is no topic {name}, and Kafka does not let us create it "
                f"({str(text or code).rstrip('.')}): let a user with the rights of the role admin "
                "create it, with `answerbus tools topics`."
            )
