"""Judges the facts about a broker against our assumptions; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from answerbus.topics import REQUESTS, TOPICS, Topic, card_owner, toolset_of
from services.commands.doctor.findings.facts import (
    BrokerFacts,
    BrokerTime,
    Cluster,
    ConsumerGroup,
    Finding,
    Verdict,
)
from services.commands.doctor.findings.in_sync import in_sync_finding
from services.kafka.planning.clock_offset import OFFSET_S_MAX
from services.kafka.planning.plan import (
    Create,
    Found,
    Grow,
    Refused,
    TopicChange,
    beyond,
    plan,
    unfinished,
)
from services.kafka.planning.rights import TOOLSET_DEFAULT, Right, Role
from services.settings.settings import KafkaSettings
from services.text.counted import count_text

PRODUCE_VERSION_MIN = 10  # Kafka 3.7
REPLICAS_MIN = 3
SKEW_WARNING_S = 1.0
SKEW_WRONG_S = 30.0  # no clock that is kept by NTP is so far off
STEPS_SHOWN_MAX = 3
_MINUTE_MS = 60_000
OPEN_TRANSACTION_S = 5.0  # a worker's are over in a fraction of a second
_POLICY, _COMPACT = "cleanup.policy", "compact"
APPLY = "run `answerbus topics apply`"
_REPLICATION = {  # of Kafka's own topics, by settings of its brokers
    "__consumer_offsets": "the brokers' `offsets.topic.replication.factor`",
    "__transaction_state": "the brokers' `transaction.state.log.replication.factor`",
}


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """Of a record that was written and taken back: who set its time, and whether it was seen."""

    has_brokers_time: bool
    was_seen: bool


def trial_finding(facts: TrialFacts) -> Finding:
    """Without transactions that hold, none of our promises does."""
    if facts.was_seen:
        text = (
            "a transaction was aborted, and a reader of committed records saw its record: this "
            "broker has no transactions that can be relied on; use another"
        )
        return Finding("trial", "wrong", text)
    if not facts.has_brokers_time:
        text = (
            "the broker did not set the time of a record itself: deadlines would count from the "
            "publishers' clocks; run `answerbus topics apply` (message.timestamp.type is "
            "LogAppendTime), or use a broker that takes this setting"
        )
        return Finding("trial", "wrong", text)
    return Finding(
        "trial", "ok", "a transaction was aborted: no reader saw it, and its time is the broker's"
    )


def findings(facts: BrokerFacts, settings: KafkaSettings) -> Iterator[Finding]:
    """One line for each thing that we assume of a broker."""
    yield _version(facts.cluster)
    yield _topics(facts, settings)
    yield from run_topics_findings(facts, settings)
    used = facts.layout.partitions if facts.layout else settings.partitions
    if advice := beyond(facts.topics, used):
        yield Finding("partitions", "warning", advice)
    if hidden := [topic for topic, found in facts.topics.items() if not found.in_force]:
        yield _unseen(hidden, settings.topic_prefix)
    if facts.topics and not hidden:
        yield _compaction_finding(facts.topics)
        yield _storage(facts.topics, settings.topic_prefix)
    if facts.topics:
        yield from _safety(facts.cluster, facts.topics, are_seen=not hidden)
    yield _clock(facts.time)
    if REQUESTS in facts.topics:
        yield _offsets(facts.cluster.offsets_kept_minutes, facts.topics[REQUESTS])
    if facts.group:
        yield _group(facts.group)
        yield from _other_groups(facts.other_groups, settings)
        yield _transactions(facts.stuck)


def _version(cluster: Cluster) -> Finding:
    count = count_text(cluster.brokers, "broker")
    if cluster.produce_version < PRODUCE_VERSION_MIN:
        text = f"{count}, older than Kafka 3.7, which we do not test: upgrade to 3.7 or newer"
        return Finding("version", "wrong", text)
    return Finding("version", "ok", f"{count} of Kafka 3.7 or newer")


def _topics(facts: BrokerFacts, settings: KafkaSettings) -> Finding:
    layout = facts.layout
    if layout and layout.moving_to is not None:
        return Finding("topics", "wrong", unfinished(layout.partitions, layout.moving_to))
    found = {topic: there for topic, there in facts.topics.items() if topic in TOPICS}
    steps = plan(found, settings.partitions, layout.partitions if layout else None)
    if isinstance(steps, Refused):
        return Finding("topics", "wrong", steps.reason)
    prefix = settings.topic_prefix
    faults = [
        text
        for step in steps
        if isinstance(step, Create | Grow | TopicChange)
        for text in _faults_of(step, step.topic.full_name(prefix))
    ]
    if faults:
        shown = "; ".join(faults[:STEPS_SHOWN_MAX])
        more = len(faults) - STEPS_SHOWN_MAX
        rest = f"; and {more} more" if more > 0 else ""
        return Finding("topics", "wrong", f"{shown}{rest}: {APPLY}")
    are_seen = all(found.in_force for found in facts.topics.values())
    kept = ", kept as they should be" if are_seen else ""
    text = f"{len(TOPICS)} topics of {settings.partitions} partitions{kept}"
    return Finding("topics", "ok", text)


def _unseen(topics: Sequence[Topic], prefix: str) -> Finding:
    names = ", ".join(topic.full_name(prefix) for topic in topics)
    text = (
        f"how {names} is kept cannot be seen: grant the user DescribeConfigs on the topics, or run "
        "this as one who has it"
    )
    return Finding("topic settings", "warning", text)


def _safety(
    cluster: Cluster, topics: Mapping[Topic, Found], *, are_seen: bool
) -> Iterator[Finding]:
    """Whether a broker may die; where there are too few brokers for that, it is not a mistake."""
    short: Verdict = "wrong" if cluster.brokers >= REPLICAS_MIN else "warning"
    replicas = {topic.name: found.replicas for topic, found in topics.items()}
    yield _copies("replication", {**replicas, **cluster.internal_replicas}, short)
    if not are_seen:
        return
    yield in_sync_finding(cluster, topics, short)
    unclean = [
        topic.name
        for topic, found in topics.items()
        if found.in_force.get("unclean.leader.election.enable") == "true"
    ]
    unclean += cluster.internal_unclean
    if unclean:
        text = (
            f"unclean.leader.election.enable is true for {', '.join(unclean)}: what is committed "
            "may vanish; set it to false"
        )
        yield Finding("elections", "wrong", text)
    else:
        yield Finding("elections", "ok", "no unclean leader elections")


def _copies(about: str, replicas: Mapping[str, int], short: Verdict) -> Finding:
    fewest = min(replicas.values())
    if fewest >= REPLICAS_MIN:
        return Finding(about, "ok", f"{fewest} copies of each partition")
    names = [name for name, count in replicas.items() if count == fewest]
    copies = count_text(fewest, "copy", "copies")
    settings = dict.fromkeys(_REPLICATION.get(it, "`kafka.replication_factor`") for it in names)
    text = (
        f"{copies} of {', '.join(names)}: our promises assume {REPLICAS_MIN}; run {REPLICAS_MIN} "
        f"brokers and set {' and '.join(settings)} to {REPLICAS_MIN} before the topics are made; "
        "`kafka-reassign-partitions.sh` adds copies later"
    )
    return Finding(about, short, text)


def _clock(time: BrokerTime | None) -> Finding:
    if time is None:
        text = "the cluster does not report its time (no KRaft, or no right to describe it)"
        return Finding("clock", "warning", f"{text}: compare the clocks by hand")
    late = (time.before - time.broker).total_seconds()
    early = (time.broker - time.after).total_seconds()
    skew, which = max((late, "behind"), (early, "ahead of"))
    if skew <= SKEW_WARNING_S:
        return Finding("clock", "ok", "ours and the broker's differ by less than a second or so")
    verdict: Verdict = "wrong" if skew > SKEW_WRONG_S else "warning"
    text = (
        f"the broker's clock is {skew:.1f} s {which} ours: deadlines count from the broker's, and "
        f"a worker that is {OFFSET_S_MAX:.0f} s off does not start; run NTP on both"
    )
    return Finding("clock", verdict, text)


def _offsets(kept_minutes: int | None, requests: Found) -> Finding:
    """Offsets that vanish before their requests do let an empty group read those again."""
    setting = "offsets.retention.minutes"
    wanted_ms = int(requests.in_force.get("retention.ms") or REQUESTS.retention_ms or -1)
    if kept_minutes is None:
        text = f"{setting} cannot be seen by this user: see that it covers the age of requests"
        return Finding("offsets", "ok", text)
    if 0 <= wanted_ms <= kept_minutes * _MINUTE_MS:
        return Finding("offsets", "ok", "those of an empty group are kept as long as requests")
    needed = "the longest it may be" if wanted_ms < 0 else f"{-(-wanted_ms // _MINUTE_MS)}"
    text = (
        f"{setting} is {kept_minutes}, shorter than requests are kept: after a stop of "
        "all workers that is longer, old requests are read again, and those whose ids are "
        f"forgotten get a second outcome; set it to {needed}"
    )
    return Finding("offsets", "warning", text)


def _group(group: ConsumerGroup) -> Finding:
    behind = sum(group.behind.values())
    waiting = f"{count_text(behind, 'record')} to be read in {len(group.behind)} partitions"
    if group.members == 0:
        text = f"no worker is in the group {group.name}, {waiting}: start `answerbus worker`"
        return Finding("workers", "warning", text)
    most = max(group.behind, key=lambda number: group.behind[number], default=0)
    worst = f", most in partition {most}: {group.behind[most]:,}" if behind else ""
    members = count_text(group.members, "member")
    return Finding("workers", "ok", f"{members} of {group.name}, {waiting}{worst}")


def _other_groups(names: Sequence[str], settings: KafkaSettings) -> Iterator[Finding]:
    if names:
        text = (
            f"workers of another group, {', '.join(names)}, read the same requests: two groups "
            f"cannot share the topic prefix {settings.topic_prefix}, and one of them gets no lane; "
            "stop one, give all of them one `kafka.group_id`, or one another `kafka.topic_prefix`"
        )
        yield Finding("groups", "wrong", text)


def _transactions(stuck: Sequence[str]) -> Finding:
    if not stuck:
        return Finding("transactions", "ok", "none holds readers back")
    named = ", ".join(stuck[:STEPS_SHOWN_MAX])
    text = (
        f"one is open in {named} for {OPEN_TRANSACTION_S:g} s and more, and readers wait for its "
        "end: a worker hangs, or was killed a moment ago (the broker ends it in half a minute)"
    )
    return Finding("transactions", "warning", text)


def _compaction_finding(topics: Mapping[Topic, Found]) -> Finding:
    """Of the topics whose settings can be seen."""
    compacted = [topic for topic in topics if _COMPACT in topic.settings().get(_POLICY, "")]
    lost = [topic.name for topic in compacted if _COMPACT not in _in_force(topics[topic])]
    names = ", ".join(lost or [topic.name for topic in compacted])
    if lost:
        text = (
            f"the broker does not compact {names}, where the last record of each key is state that "
            "must be kept: run `answerbus topics apply`; a broker that leaves it so cannot be used"
        )
        return Finding("compaction", "wrong", text)
    return Finding("compaction", "ok", f"the broker compacts {names}")


def _storage(topics: Mapping[Topic, Found], prefix: str) -> Finding:
    """Whether brokers hold the records themselves: other storage lacks what lanes need."""
    if diskless := _with("diskless.enable", topics, prefix):
        text = (
            f"diskless.enable is true for {diskless}: such topics have neither transactions nor "
            "compaction, so that no lane opens; make them again with diskless.enable=false"
        )
        return Finding("storage", "wrong", text)
    if tiered := _with("remote.storage.enable", topics, prefix):
        text = (
            f"remote.storage.enable is true for {tiered}: while the remote storage is slow or "
            "away, lanes do not open, replays and audits fail, and requests that waited long are "
            "not read; we do not test it"
        )
        return Finding("storage", "warning", text)
    return Finding("storage", "ok", "all records are on the brokers' disks")


def _with(setting: str, topics: Mapping[Topic, Found], prefix: str) -> str:
    """The names of the topics that have it."""
    names = (t.full_name(prefix) for t, it in topics.items() if it.in_force.get(setting) == "true")
    return ", ".join(names)


def _in_force(found: Found) -> str:
    return found.in_force.get(_POLICY, "")


def run_topics_findings(facts: BrokerFacts, settings: KafkaSettings) -> Iterator[Finding]:
    """One, if anything here needs them and the topics of requests are there; each is named."""
    wanted, prefix = facts.run_topics, settings.topic_prefix
    if facts.layout is None or not wanted:
        return
    found = {topic: there for topic, there in facts.topics.items() if topic in wanted}
    steps = plan(found, facts.layout.partitions, facts.layout.partitions, wanted)
    if isinstance(steps, Refused):
        yield Finding("run topics", "wrong", steps.reason)
        return
    missing = [step.topic for step in steps if isinstance(step, Create)]
    faults = [_missing(missing, prefix)] if missing else []
    faults += [
        text
        for step in steps
        if isinstance(step, Grow | TopicChange)
        for text in _faults_of(step, step.topic.full_name(prefix))
    ]
    if faults:
        yield Finding("run topics", "wrong", f"{'; '.join(faults)}: {APPLY}")
        return
    toolsets = ", ".join(filter(None, map(toolset_of, wanted)))
    of_tools = f", with calls of {toolsets}" if toolsets else ""
    yield Finding("run topics", "ok", f"{len(wanted)} topics of runs{of_tools}")


def _missing(topics: Sequence[Topic], prefix: str) -> str:
    names = ", ".join(topic.full_name(prefix) for topic in topics)
    owners = [toolset_of(topic) or card_owner(topic) for topic in topics]
    toolsets = dict.fromkeys(filter(None, owners))
    result = (
        f"no agent can call a tool of {', '.join(toolsets)}"
        if all(owners)
        else "no agent can work, and no request can be cancelled"
    )
    return f"{names} {'is' if len(topics) == 1 else 'are'} missing, so that {result}"


def _faults_of(step: Create | Grow | TopicChange, name: str) -> Iterator[str]:
    """The faults of one topic."""
    if isinstance(step, Create):
        yield f"{name} is missing"
        return
    if isinstance(step, Grow):
        yield f"{name} has {step.found} partitions, fewer than are in use"
        return
    for diff in step.differences:
        if diff.found is None:
            continue  # no right to see it, which is reported once
        yield f"{diff.name} of {name} is {diff.found} and should be {diff.wanted}"


def rights_findings(
    role: Role, held: Mapping[Right, bool | None], toolset: str = TOOLSET_DEFAULT
) -> Iterator[Finding]:
    """One line for each right that is missing, and one that says what all is well."""
    of_toolset = "" if toolset == TOOLSET_DEFAULT else f" --toolset {toolset}"
    how = f"`answerbus topics acls --role {role}{of_toolset}` prints all"
    for right, is_held in held.items():
        if is_held is False:
            verb = "needs" if right.needed else "may have"
            message = (
                f"no right to {right}, which the role {role} {verb} ({right.why}): grant it, {how}"
            )
            yield Finding("rights", "wrong" if right.needed else "warning", message)
    hidden = {right.name for right, is_held in held.items() if is_held is False}
    unclear = (right for right, is_held in held.items() if is_held is None and right.needed)
    unknown = [str(right) for right in unclear if right.name not in hidden]
    if unknown:
        text = (
            f"cannot see whether these are granted: {', '.join(unknown)}; the topic is "
            "missing, or the broker does not say"
        )
        yield Finding("rights", "warning", text)
    if all(held[right] for right in held if right.needed):
        count = sum(is_held is True for is_held in held.values())
        yield Finding("rights", "ok", f"all that the role {role} needs, {count} of {len(held)}")


ACCOUNT_BYTES = 110  # of one without an open request (docs/guarantees.md)
WARNING_BYTES = 2 * 1024**3  # over all workers
_GB = 1e9


def accounts_finding(requests_per_s: float, remember_s: float) -> Finding:
    """If each request began a workflow: the most that it can be."""
    memory_bytes = requests_per_s * remember_s * ACCOUNT_BYTES
    text = (
        f"{requests_per_s:.2g} requests/s in the last hour × `accounts.remember_s` of "
        f"{remember_s:,.0f} s × {ACCOUNT_BYTES} bytes: if each is a workflow of its own, accounts "
        f"take {memory_bytes / _GB:.2f} GB over all workers"
    )
    if memory_bytes < WARNING_BYTES:
        return Finding("accounts", "ok", text)
    advice = "give workers that much, or set `accounts.remember_s` to how long a workflow may rest"
    return Finding("accounts", "warning", f"{text}; {advice}")
