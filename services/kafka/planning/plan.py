"""Plans the steps until a broker has the declared topics; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from answerbus.partition import Layout
from answerbus.topics import REQUESTS, RUN_TOPICS, TOPICS, Topic, tool_calls, toolset_cards

MOVE = "`answerbus topics move`"
_RETENTION, _FOR_EVER = "retention.ms", "-1"


@dataclass(frozen=True, slots=True)
class Found:
    """A topic as the broker has it: `in_force` are all its settings, `own` those set on itself.

    `replicas`: how many copies the partition with the fewest has.
    """

    partitions: int
    in_force: Mapping[str, str]
    own: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Create:
    topic: Topic


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting, as it is and as it should be."""

    name: str
    found: str | None
    wanted: str


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The topic is there with other settings; `settings` are all that it shall have of its own.

    Kafka's call that aiokafka knows replaces a topic's own settings, so that those which are none
    of our business must be said again.
    """

    topic: Topic
    differences: tuple[Difference, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Grow:
    """The topic has fewer partitions than are in use: it was deleted and made again.

    What it holds stays where it is; requests that stand elsewhere are forwarded to their owners.
    """

    topic: Topic
    found: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The topic is as it should be."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class Refused:
    """The present topics cannot be changed so; `reason` says in one sentence what to do."""

    reason: str


Step = Create | Grow | TopicChange | Keep


def plan(
    found: Mapping[Topic, Found],
    partitions: int,
    in_use: int | None = None,
    topics: Sequence[Topic] = TOPICS,
) -> tuple[Step, ...] | Refused:
    """One step for each of the topics, which are those that every deployment needs, or more.

    `in_use` is how many partitions the lanes have used so far, where that is known: it decides
    where a workflow lives, and only a move changes it. More than that in a topic do no harm. Topics
    of tools have numbers of their own, which say nothing about lanes.
    """
    lanes = {topic: there for topic, there in found.items() if topic.partitions is None}
    counts = {topic.name: there.partitions for topic, there in lanes.items()}
    used = in_use or min(counts.values(), default=partitions)
    if used != partitions:
        return Refused(
            f"The topics have {used} partitions and `kafka.partitions` is {partitions}: set it to "
            f"{used}, or change the number with `answerbus topics move`, since workflows move."
        )
    few = {topic: there.partitions for topic, there in lanes.items() if there.partitions < used}
    steps = (_step(topic, found.get(topic)) for topic in topics)
    return (
        *(Grow(topic, count) for topic, count in few.items()),
        *(step for step in steps if not (isinstance(step, Keep) and step.topic in few)),
    )


def needed(tools: Iterable[str], *, has_agents: bool) -> tuple[Topic, ...]:
    """What a deployment needs with these tools, such as `orders.get_order`, or toolsets.

    One with budgets of labels needs the same as one that `has_agents`.
    """
    if not has_agents:
        return TOPICS
    toolsets = dict.fromkeys(tool.partition(".")[0] for tool in tools)
    own = (topic for name in toolsets for topic in (tool_calls(name), toolset_cards(name)))
    return (*TOPICS, *RUN_TOPICS, *own)


def _step(topic: Topic, found: Found | None) -> Step:
    if found is None:
        return Create(topic)
    wanted = {**topic.settings(), **_kept_for_longer(topic, found)}
    differences = tuple(
        Difference(name, found.in_force.get(name), value)
        for name, value in wanted.items()
        if found.in_force.get(name) != value
    )
    return TopicChange(topic, differences, {**found.own, **wanted}) if differences else Keep(topic)


def _kept_for_longer(topic: Topic, found: Found) -> Mapping[str, str]:
    """What operators keep for longer stays so, where no worker counts on its being gone."""
    present = found.in_force.get(_RETENTION, "")
    if topic.cleanup != "delete" or "worker" in topic.readers or topic.retention_ms is None:
        return {}
    is_longer = present == _FOR_EVER or (present.isdecimal() and int(present) > topic.retention_ms)
    return {_RETENTION: present} if is_longer else {}


def unusable(found: Mapping[Topic, Found], layout: Layout, prefix: str) -> str | None:
    """Why no lane can work on these topics; None if they can be used."""
    if layout.moving_to is not None:
        return unfinished(layout.partitions, layout.moving_to)
    for topic, there in found.items():
        if there.partitions < layout.partitions:
            return (
                f"The topic {topic.full_name(prefix)} has {there.partitions} partitions and this "
                f"deployment has {layout.partitions}: `answerbus topics apply` with "
                f"`kafka.partitions` {layout.partitions} gives it the missing ones, and keeps what "
                "it holds."
            )
    return None


def unfinished(partitions: int, moving_to: int) -> str:
    """What is to be done about a move that was cut short."""
    return (
        f"A move from {partitions} to {moving_to} partitions has begun and has not ended: run "
        f"`answerbus topics move --partitions {moving_to}` again, or with {partitions} to go back."
    )


def beyond(found: Mapping[Topic, Found], partitions: int) -> str | None:
    """What is to be known of partitions that are not used; None if there are none."""
    counts = {
        topic.name: there.partitions
        for topic, there in found.items()
        if there.partitions > partitions and topic.partitions is None
    }
    if not counts:
        return None
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    read = (
        "records in the added partitions of requests are forwarded to those that own them"
        if REQUESTS.name in counts
        else "the added ones are not used"
    )
    return (
        f"some topics have more partitions ({listed}) than the {partitions} of this deployment: "
        f"{read}; {MOVE} changes the number"
    )
