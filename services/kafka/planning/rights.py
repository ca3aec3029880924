"""The table of rights: those of each role on a Kafka with ACLs, with their purpose."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from answerbus.topics import (
    ACCEPTED_TOOLS,
    APPROVALS,
    ATTEMPTS,
    COMPARISONS,
    CONTROLS,
    DEAD_LETTERS,
    LEDGER,
    OUTCOMES,
    REQUESTS,
    RETRIES,
    RUN_TOPICS,
    RUNS,
    STEPS,
    TOOL_RESULTS,
    TOPICS,
    Topic,
    tool_calls,
    toolset_cards,
)

Role = Literal[
    "publisher", "app", "worker", "operator", "console", "auditor", "shadow", "tools", "admin"
]
Resource = Literal["topic", "group", "transactional_id", "cluster"]
Operation = Literal[
    "Read", "Write", "Create", "Alter", "Describe", "DescribeConfigs", "AlterConfigs"
]
_MADE_WHERE_MISSING: tuple[Operation, ...] = ("Create", "Read", "Write")
CLUSTER = "kafka-cluster"  # Kafka's own name of the one cluster
TOOLSET_DEFAULT = "echo"


@dataclass(frozen=True, slots=True)
class Right:
    """One operation on one resource; `is_prefix`: on all resources whose names begin so.

    Without a right that is not `needed` the role works, and does not do what `why` says.
    """

    resource: Resource
    name: str
    operation: Operation
    why: str
    is_prefix: bool = False
    needed: bool = True

    def __str__(self) -> str:
        """Such as: Read on the topic acme.requests.v1."""
        if self.resource == "cluster":
            return f"{self.operation} on the cluster"
        kind = self.resource.replace("_", " ")
        if self.is_prefix:
            return f"{self.operation} on the {kind}s {self.name}*"
        return f"{self.operation} on the {kind} {self.name}"


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """What a deployment calls things; `app_group` is that of subscribers, of their own choice."""

    prefix: str
    worker_group: str
    app_group: str
    toolset: str = TOOLSET_DEFAULT

    @property
    def lanes(self) -> str:
        """How the transactional ids of lanes begin."""
        return f"{self.prefix}.lane."

    @property
    def calls(self) -> str:
        """How the topics of calls begin, and the groups that read them."""
        return f"{self.prefix}.tools."

    @property
    def cards(self) -> str:
        """How the topics of cards begin."""
        return f"{self.prefix}.toolsets."

    @property
    def replay(self) -> str:
        """The transactional id of replays and dismissals."""
        return f"{self.prefix}.replay"


def rights_of(role: Role, names: ResourceNames, *, needs_runs: bool = False) -> tuple[Right, ...]:
    """All rows of a role; with agents or budgets (`needs_runs`) those on topics of runs are needed.

    Without a right to that of accepted tools runs go on, and `/ready` says what is not kept.
    """
    of_runs = {it.full_name(names.prefix) for it in RUN_TOPICS if it is not ACCEPTED_TOOLS}
    return tuple(
        replace(right, needed=True) if needs_runs and right.name in of_runs else right
        for right in _TABLE[role](names)
    )


def _topic(
    topic: Topic, operation: Operation, names: ResourceNames, why: str, *, needed: bool = True
) -> Right:
    return Right("topic", topic.full_name(names.prefix), operation, why, needed=needed)


def _publisher(names: ResourceNames) -> Iterator[Right]:
    yield _topic(REQUESTS, "Write", names, "publishes requests")


def _app(names: ResourceNames) -> Iterator[Right]:
    yield from _publisher(names)
    for topic in OUTCOMES:
        yield _topic(topic, "Read", names, "reads outcomes")
    yield Right("group", names.app_group, "Read", "subscribes to outcomes")
    yield _topic(RETRIES, "Read", names, "reports retries while it waits", needed=False)
    yield _topic(STEPS, "Read", names, "follows runs", needed=False)
    yield _topic(CONTROLS, "Write", names, "cancels what it has asked", needed=False)


def _worker(names: ResourceNames) -> Iterator[Right]:
    for topic in TOPICS:
        if "worker" in topic.readers:
            yield _topic(topic, "Read", names, f"reads: {topic.summary}")
    for topic in TOPICS:
        if "worker" in topic.writers:
            yield _topic(topic, "Write", names, f"writes: {topic.summary}")
    yield Right("group", names.worker_group, "Read", "shares the partitions with other workers")
    yield Right("transactional_id", names.lanes, "Write", "opens lanes", is_prefix=True)
    yield from _runs(names)
    for topic in TOPICS:
        yield _topic(
            topic, "DescribeConfigs", names, "warns of a topic that is kept otherwise", needed=False
        )
    yield _clock()


def _runs(names: ResourceNames) -> Iterator[Right]:
    """Of a worker with agents, which calls the tools of any toolset; any cancels requests."""
    for topic in RUN_TOPICS:
        why = "cancels requests, and runs agents"
        if "worker" in topic.readers:
            yield _topic(topic, "Read", names, why, needed=False)
        if "worker" in topic.writers:
            yield _topic(topic, "Write", names, why, needed=False)
    why = "runs agents"
    yield Right("topic", names.cards, "Read", why, is_prefix=True, needed=False)
    yield Right("topic", names.calls, "Write", why, is_prefix=True, needed=False)


def _operator(names: ResourceNames) -> Iterator[Right]:
    for topic in TOPICS:
        yield _topic(topic, "Read", names, "shows dead letters, workflows and lanes")
    yield from _acting(names, needed=True)
    yield from _guiding(names)
    yield _topic(ACCEPTED_TOOLS, "Write", names, "accepts changes of tools", needed=False)
    yield _topic(RUNS, "Read", names, "shows which lanes are shut, and records runs", needed=False)
    for operation in _MADE_WHERE_MISSING:
        yield _topic(COMPARISONS, operation, names, "compares profiles", needed=False)
    why = "shows and checks tools"
    yield Right("topic", names.cards, "Read", why, is_prefix=True, needed=False)


def _console(names: ResourceNames) -> Iterator[Right]:
    for topic in TOPICS:
        yield _topic(topic, "Read", names, "shows what goes on")
    yield Right("group", names.worker_group, "Describe", "shows how far workers have read")
    yield _topic(COMPARISONS, "Read", names, "shows comparisons", needed=False)
    yield from _acting(names, needed=False)
    yield from _guiding(names)
    yield _topic(RUNS, "Read", names, "shows what operators skipped there", needed=False)
    why = "shows rates and sizes of topics, and lag"
    yield _topic(TOOL_RESULTS, "Read", names, why, needed=False)
    for own in (names.calls, names.cards):
        yield Right("topic", own, "Read", why, is_prefix=True, needed=False)
    yield Right("group", names.calls, "Describe", why, is_prefix=True, needed=False)


def _acting(names: ResourceNames, *, needed: bool) -> Iterator[Right]:
    why = "replays and dismisses dead letters"
    for topic in (REQUESTS, DEAD_LETTERS):
        yield _topic(topic, "Write", names, why, needed=needed)
    yield Right("transactional_id", names.replay, "Write", why, needed=needed)


def _guiding(names: ResourceNames) -> Iterator[Right]:
    """Of operators: applications and tool servers could else approve calls of their own."""
    for topic in (STEPS, APPROVALS, CONTROLS):
        yield _topic(topic, "Read", names, "shows runs", needed=False)
    yield _topic(APPROVALS, "Write", names, "approves and denies tool calls", needed=False)
    yield _topic(CONTROLS, "Write", names, "cancels requests", needed=False)
    yield _topic(ACCEPTED_TOOLS, "Read", names, "shows changes of tools", needed=False)


def _auditor(names: ResourceNames) -> Iterator[Right]:
    for topic in (LEDGER, RETRIES, *OUTCOMES, ATTEMPTS):
        yield _topic(topic, "Read", names, "verifies what was spent")
    yield _topic(STEPS, "Read", names, "verifies what runs have done", needed=False)


def _shadow(names: ResourceNames) -> Iterator[Right]:
    """It reads what workers write, and can write nothing that a worker or a client reads."""
    for topic in (REQUESTS, ATTEMPTS, *OUTCOMES):
        yield _topic(topic, "Read", names, "asks again what is answered")
    why = "writes what it compared, and knows what it has asked today"
    yield _topic(COMPARISONS, "Read", names, why)
    yield _topic(COMPARISONS, "Write", names, why)
    yield _topic(COMPARISONS, "Create", names, "creates the topic where it misses", needed=False)


def _tools(names: ResourceNames) -> Iterator[Right]:
    yield _topic(tool_calls(names.toolset), "Read", names, "reads tool calls")
    group = f"{names.prefix}.tools.{names.toolset}"
    yield Right("group", group, "Read", "shares tool calls with other tool servers")
    yield _topic(TOOL_RESULTS, "Write", names, "writes what tools gave")
    cards = toolset_cards(names.toolset)
    yield _topic(cards, "Write", names, "announces its tools")
    for topic in (tool_calls(names.toolset), TOOL_RESULTS, cards):
        yield _topic(topic, "Create", names, "creates its topics where they miss", needed=False)
    yield _topic(REQUESTS, "Describe", names, "gives results as many partitions", needed=False)


def _admin(names: ResourceNames) -> Iterator[Right]:
    for topic in TOPICS:
        yield _topic(topic, "Create", names, "creates the topic")
        yield _topic(topic, "Alter", names, "gives it more partitions")
        yield _topic(topic, "AlterConfigs", names, "sets how it is kept")
    yield _topic(LEDGER, "Read", names, "knows how many partitions are in use")
    for topic in RUN_TOPICS:
        for operation in ("Create", "Alter", "AlterConfigs"):
            yield _topic(topic, operation, names, "makes the topics of runs", needed=False)
    why = "makes the topics of tools"
    seeing: tuple[Operation, ...] = ("Create", "Describe", "AlterConfigs")
    for operation in seeing:
        for own in (names.calls, names.cards):
            yield Right("topic", own, operation, why, is_prefix=True, needed=False)


def _clock() -> Right:
    why = "asks the controller for its time"
    return Right("cluster", CLUSTER, "Describe", why, needed=False)


_TABLE: Mapping[Role, Callable[[ResourceNames], Iterator[Right]]] = {
    "publisher": _publisher,
    "app": _app,
    "worker": _worker,
    "operator": _operator,
    "console": _console,
    "auditor": _auditor,
    "shadow": _shadow,
    "tools": _tools,
    "admin": _admin,
}
ROLES: tuple[Role, ...] = tuple(_TABLE)
