"""The one table of topics: creation, documentation and tests derive from it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from answerbus.limits import RECORD_BYTES_MAX

PARTITIONS_DEFAULT = 12
PREFIX_DEFAULT = "answerbus"
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_MIB = 1024 * 1024

Key = Literal[
    "workflow_id",
    "workflow_id or budget",
    "request",
    "dead_letter_id",
    "ledger",
    "call_id",
    "toolset",
    "run",
    "tool",
    "budget",
]
Party = Literal["upstream", "worker", "replay", "downstream", "operators", "audit", "tools"]


@dataclass(frozen=True, slots=True)
class Segments:
    """How a topic that is read from its start stays short enough for that.

    Kafka compacts whole segments only, and not the one that is written: by default 1 GiB, or seven
    days. A null value, and the end of each transaction, stay for `nulls_ms` after a compaction: who
    reads a topic from its start must get from a value to its null value within that time.
    """

    segment_bytes: int
    segment_ms: int
    dirty_ratio: str  # of what is not compacted yet, from which on Kafka compacts; as it spells it
    nulls_ms: int

    def settings(self) -> Mapping[str, str]:
        """Kafka configurations of a topic by name, such as `segment.ms`; numbers as texts."""
        return {
            "segment.bytes": str(self.segment_bytes),
            "segment.ms": str(self.segment_ms),
            "min.cleanable.dirty.ratio": self.dirty_ratio,
            "delete.retention.ms": str(self.nulls_ms),
        }


@dataclass(frozen=True, slots=True)
class Topic:
    """One row: what is in a topic, how it is kept, who writes and who reads it."""

    name: str
    events: tuple[str, ...]
    key: Key
    cleanup: Literal["delete", "compact", "compact,delete"]
    retention_ms: int | None
    writers: tuple[Party, ...]
    readers: tuple[Party, ...]
    summary: str
    compaction_lag_ms: int | None = None
    segments: Segments | None = None
    record_bytes_max: int = RECORD_BYTES_MAX
    partitions: int | None = None  # its own number; None: as many as the deployment has

    def full_name(self, prefix: str = PREFIX_DEFAULT) -> str:
        """The name on the broker, such as `answerbus.results.v1`."""
        return f"{prefix}.{self.name}.v1"

    def settings(self) -> Mapping[str, str]:
        """The topic-level settings that we rely on, as Kafka spells them.

        Ages and deadlines count from the broker's clock, and so must what it deletes by age.
        """
        chosen = {
            "cleanup.policy": self.cleanup,
            "retention.ms": None if self.retention_ms is None else str(self.retention_ms),
            "min.compaction.lag.ms": (
                None if self.compaction_lag_ms is None else str(self.compaction_lag_ms)
            ),
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self.record_bytes_max + _BATCH_OVERHEAD_BYTES),
        }
        short = self.segments.settings() if self.segments else {}
        return {name: value for name, value in chosen.items() if value is not None} | {**short}


_BATCH_OVERHEAD_BYTES = 12  # Kafka's default of 1,048,588 is 1 MiB and the log overhead

REQUESTS = Topic(
    "requests",
    ("request",),
    "workflow_id",
    "delete",
    7 * _DAY_MS,
    writers=("upstream", "replay", "worker"),
    readers=("worker",),
    summary="What upstream asks for; a worker writes here only to forward a misrouted record.",
)
RESULTS = Topic(
    "results",
    ("result", "unvalidated_result"),
    "workflow_id",
    "delete",
    7 * _DAY_MS,
    writers=("worker",),
    readers=("downstream",),
    summary="Answers.",
)
REFUSALS = Topic(
    "refusals",
    ("refusal",),
    "workflow_id",
    "delete",
    7 * _DAY_MS,
    writers=("worker",),
    readers=("downstream",),
    summary="Requests that the model or its provider declined.",
)
RETRIES = Topic(
    "retries",
    ("retry_request", "skipped"),
    "request",
    "compact",
    None,
    writers=("worker", "operators"),
    readers=("worker", "operators"),
    summary="The list of what is still being retried; a null value ends an entry.",
    compaction_lag_ms=_HOUR_MS,
    # A lane that missed the end of a retry would work on a request that has had its outcome.
    segments=Segments(16 * _MIB, _HOUR_MS, "0.2", nulls_ms=_DAY_MS),
)
DEAD_LETTERS = Topic(
    "dead-letters",
    ("dead_letter", "replayed", "dismissed"),
    "dead_letter_id",
    "delete",
    30 * _DAY_MS,
    writers=("worker", "replay"),
    readers=("operators", "replay"),
    summary="What could not be answered, and what operators did about it.",
)
ATTEMPTS = Topic(
    "attempts",
    ("attempt",),
    "workflow_id",
    "delete",
    30 * _DAY_MS,
    writers=("worker",),
    readers=("audit", "operators"),
    summary="One record for each committed spend, chained by hash per account.",
)
LEDGER = Topic(
    "ledger",
    ("account", "closed", "closed_ids", "lane", "budget_lease", "budget_share", "skipped"),
    "ledger",
    "compact,delete",
    7 * _DAY_MS,
    writers=("worker", "operators"),
    readers=("worker", "audit"),
    summary="Private: accounts, closed requests, lanes, shared budgets; operators skip records.",
    # Each request ends two transactions here or more. Nothing is lost with a null value that is
    # missed: what it ends is known by more than that, or is of no partition any more.
    segments=Segments(4 * _MIB, _HOUR_MS, "0.2", nulls_ms=_HOUR_MS // 4),
)

TOPICS = (REQUESTS, RESULTS, REFUSALS, RETRIES, DEAD_LETTERS, ATTEMPTS, LEDGER)
OUTCOMES = (RESULTS, REFUSALS, DEAD_LETTERS)


def tool_calls(toolset: str) -> Topic:
    """The topic of the calls of one toolset, such as `answerbus.tools.orders.v1`."""
    return Topic(
        f"tools.{toolset}",
        ("tool_call", "tool_continue", "tool_cancel", "tool_reconcile"),
        "call_id",
        "delete",
        _DAY_MS,
        writers=("worker",),
        readers=("tools",),
        summary="Calls of the tools of one toolset.",
        partitions=PARTITIONS_DEFAULT,
    )


def toolset_of(topic: Topic) -> str | None:
    """Whose calls a topic holds; None for all topics but those of toolsets."""
    return topic.name.removeprefix("tools.") if "tool_call" in topic.events else None


TOOL_CALLS = tool_calls("{toolset}")
TOOL_RESULTS = Topic(
    "tool-results",
    ("tool_result", "tool_progress", "tool_reconciled"),
    "workflow_id",
    "delete",
    7 * _DAY_MS,
    writers=("tools",),
    readers=("worker",),
    summary="What tool servers say of calls, in the partition of the lane that called.",
)


def toolset_cards(toolset: str) -> Topic:
    """The topic of the card of one toolset, such as `answerbus.toolsets.orders.v1`.

    Each toolset has its own, since Kafka restricts writers by topic and not by key.
    """
    return Topic(
        f"toolsets.{toolset}",
        ("toolset",),
        "toolset",
        "compact",
        None,
        writers=("tools",),
        readers=("worker", "operators"),
        summary="The card of one toolset: its tools, their schemas and digests.",
        compaction_lag_ms=_HOUR_MS,
        segments=Segments(4 * _MIB, _HOUR_MS, "0.2", nulls_ms=_DAY_MS),
        partitions=1,
    )


def card_owner(topic: Topic) -> str | None:
    """Whose card a topic holds; None for all topics but those of cards."""
    return topic.name.removeprefix("toolsets.") if "toolset" in topic.events else None


TOOLSET_CARDS = toolset_cards("{toolset}")
SHARED_CARDS = replace(TOOLSET_CARDS, name="toolsets")
"""Where tool servers of earlier versions announce cards; read only where settings say so."""

APPROVALS = Topic(
    "approvals",
    ("approval", "input", "run_resumed"),
    "workflow_id",
    "delete",
    30 * _DAY_MS,
    writers=("operators",),
    readers=("worker", "operators"),
    summary="Decisions of operators, and runs that they resumed; written by operators alone.",
)
CONTROLS = Topic(
    "controls",
    ("cancel",),
    "workflow_id",
    "delete",
    30 * _DAY_MS,
    writers=("operators", "upstream"),
    readers=("worker", "operators"),
    summary="Cancellations of open requests.",
)
RUNS = Topic(
    "runs",
    ("run", "run_child", "run_step", "run_call", "run_cancel", "skipped"),
    "run",
    "compact",
    None,
    writers=("worker", "operators"),
    readers=("worker", "operators"),
    summary="Private: what runs are open and how they stand; a null value ends each record.",
    compaction_lag_ms=_HOUR_MS,
    # A lane that missed the end of a run would go on with one that has had its outcome.
    segments=Segments(16 * _MIB, _HOUR_MS, "0.2", nulls_ms=_DAY_MS),
)
STEPS = Topic(
    "steps",
    (
        "step",
        "approval_requested",
        "input_requested",
        "tool_ended",
        "control_applied",
        "budget_nearly_spent",
    ),
    "workflow_id or budget",
    "delete",
    30 * _DAY_MS,
    writers=("worker",),
    readers=("upstream", "audit", "operators"),
    summary="What runs do, chained by hash; what came of controls; budgets that are nearly spent.",
)
ACCEPTED_TOOLS = Topic(
    "accepted-tools",
    ("tool_accepted",),
    "tool",
    "compact",
    None,
    writers=("worker", "operators"),
    readers=("worker", "operators"),
    summary="Tools that need approval, as they were first seen or accepted; all in partition 0.",
    compaction_lag_ms=_HOUR_MS,
    segments=Segments(4 * _MIB, _HOUR_MS, "0.2", nulls_ms=_DAY_MS),
)
COMPARISONS = Topic(
    "comparisons",
    ("compared",),
    "workflow_id",
    "delete",
    30 * _DAY_MS,
    writers=("operators",),
    readers=("operators",),
    summary="Questions that operators asked again of another profile; no worker reads it.",
    partitions=1,
)
LEASES = Topic(
    "leases",
    ("budget_lease", "budget_share"),
    "budget",
    "delete",
    7 * _DAY_MS,
    writers=("worker",),
    readers=("worker",),
    summary="Private: what lanes ask of the home lanes of shared budgets, and are given.",
)
RUN_TOPICS = (TOOL_RESULTS, APPROVALS, CONTROLS, RUNS, STEPS, ACCEPTED_TOOLS, LEASES)
"""Those that a worker with agents or shared budgets needs, with as many partitions as requests."""

EVERY_TOPIC = (
    *TOPICS,
    TOOL_CALLS,
    TOOL_RESULTS,
    TOOLSET_CARDS,
    APPROVALS,
    CONTROLS,
    RUNS,
    STEPS,
    ACCEPTED_TOOLS,
    COMPARISONS,
    LEASES,
)

# Each private topic may hold `skipped` records, and what the leases say is in the ledger as well:
# these kinds are listed with the ledger.
TOPIC_OF_KIND: Mapping[str, Topic] = {
    **{kind: topic for topic in EVERY_TOPIC for kind in topic.events},
    **dict.fromkeys(("skipped", "budget_lease", "budget_share"), LEDGER),
}
