"""The facts about a broker that the checks collect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from answerbus.partition import Layout
from answerbus.topics import Topic
from services.kafka.planning.plan import Found

Verdict = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line; `statement` says what is, and if that is not well, what to change."""

    about: str
    verdict: Verdict
    said: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers: how many, and the highest version of the Produce call that all understand."""

    brokers: int
    produce_version: int
    internal_replicas: Mapping[str, int]  # by topic, as far as they exist
    offsets_kept_minutes: int | None = None  # of an empty group, at least; None: not to be seen
    internal_in_sync: Mapping[str, int] = field(default_factory=dict)  # by topic, as far as seen
    internal_unclean: Sequence[str] = ()  # of these topics, as far as seen


@dataclass(frozen=True, slots=True)
class BrokerTime:
    """The time that the cluster's controller gave between two looks at our own clock."""

    before: datetime
    broker: datetime
    after: datetime


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """The workers' group: `behind` are records to be read by partition, None where none were.

    `requests_per_s` is the rate of the last hour, or of less where the first request is younger.
    """

    name: str
    members: int
    behind: Mapping[int, int]
    requests_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """All of it; the time is None where the cluster does not report it, `stuck` are partitions.

    There is no layout without topics. `run_topics` are those that agents, tools and budgets need.
    """

    cluster: Cluster
    topics: Mapping[Topic, Found]
    time: BrokerTime | None
    group: ConsumerGroup | None
    stuck: Sequence[str]
    other_groups: Sequence[str] = ()  # of workers, beside the one that is looked at
    layout: Layout | None = None
    run_topics: Sequence[Topic] = ()
