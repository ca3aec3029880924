"""What the doctor says about a broker, without one."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from answerbus.partition import Layout
from answerbus.topics import LEDGER, REQUESTS, RESULTS, TOPICS, Topic
from services.commands.doctor import examine
from services.commands.doctor.examine import judged_files
from services.commands.doctor.findings.facts import (
    BrokerFacts,
    BrokerTime,
    Cluster,
    ConsumerGroup,
    Finding,
)
from services.commands.doctor.findings.judge import findings
from services.kafka.planning.plan import Found
from services.settings.settings import KafkaSettings
from tests.unit.worker.builders import NOW, after

SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
SETTINGS = KafkaSettings()
DAY_MS, DAY_MINUTES = 86_400_000, 1_440


def found(topic: Topic, settings: Mapping[str, str] = {}, replicas: int = 3) -> Found:
    in_force = {**topic.settings(), **SAFE, **settings}
    return Found(12, in_force, topic.settings(), replicas)


WELL = BrokerFacts(
    cluster=Cluster(3, 11, {"__consumer_offsets": 3, "__transaction_state": 3}, 7 * DAY_MINUTES),
    topics={topic: found(topic) for topic in TOPICS},
    time=BrokerTime(NOW, NOW, NOW),
    group=ConsumerGroup("answerbus.worker", 2, {0: 0, 1: 7}),
    stuck=(),
)


def findings_of(
    look: BrokerFacts, settings: KafkaSettings = SETTINGS
) -> dict[str, tuple[str, str]]:
    return {finding.about: (finding.verdict, finding.said) for finding in findings(look, settings)}


def test_all_is_well() -> None:
    assert findings_of(WELL) == {
        "version": ("ok", "3 brokers of Kafka 3.7 or newer"),
        "topics": ("ok", "7 topics of 12 partitions, kept as they should be"),
        "replication": ("ok", "3 copies of each partition"),
        "in sync": ("ok", "min.insync.replicas is 2"),
        "elections": ("ok", "no unclean leader elections"),
        "compaction": ("ok", "the broker compacts retries, ledger"),
        "storage": ("ok", "all records are on the brokers' disks"),
        "clock": ("ok", "ours and the broker's differ by less than a second or so"),
        "offsets": ("ok", "those of an empty group are kept as long as requests"),
        "workers": (
            "ok",
            (
                "2 members of answerbus.worker, 7 records to be read in 2 partitions, most in "
                "partition 1: 7"
            ),
        ),
        "transactions": ("ok", "none holds readers back"),
    }


@pytest.mark.parametrize(
    ("kept_minutes", "requests_ms", "verdict", "part"),
    [
        (DAY_MINUTES, 7 * DAY_MS, "warning", "is 1440, shorter than requests are kept"),
        (DAY_MINUTES, 7 * DAY_MS, "warning", "set it to 10080"),
        (7 * DAY_MINUTES, 7 * DAY_MS + 1, "warning", "set it to 10081"),
        (7 * DAY_MINUTES, -1, "warning", "set it to the longest it may be"),
        (30 * DAY_MINUTES, 7 * DAY_MS, "ok", "kept as long as requests"),
        (None, 7 * DAY_MS, "ok", "cannot be seen by this user"),
    ],
)
def test_offsets_of_an_empty_group_must_be_kept_as_long_as_requests(
    kept_minutes: int | None, requests_ms: int, verdict: str, part: str
) -> None:
    kept = found(REQUESTS, {"retention.ms": str(requests_ms)})
    cluster = replace(WELL.cluster, offsets_kept_minutes=kept_minutes)
    look = replace(WELL, cluster=cluster, topics={**WELL.topics, REQUESTS: kept})

    assert findings_of(look)["offsets"][0] == verdict
    assert part in findings_of(look)["offsets"][1]


def test_topics_whose_settings_are_hidden_are_not_called_wrong() -> None:
    hidden = {topic: Found(12, {}, {}, 3) for topic in TOPICS}

    reported = findings_of(replace(WELL, topics=hidden))
    names = ", ".join(topic.full_name() for topic in TOPICS)

    assert {about: it for about, it in reported.items() if it[0] != "ok"} == {
        "topic settings": (
            "warning",
            (
                f"how {names} is kept cannot be seen: grant the user DescribeConfigs on the "
                "topics, or run this as one who has it"
            ),
        )
    }
    assert reported["topics"] == ("ok", "7 topics of 12 partitions")


def test_an_old_broker() -> None:
    look = replace(WELL, cluster=Cluster(1, 9, {}))

    assert findings_of(look)["version"] == (
        "wrong",
        "1 broker, older than Kafka 3.7, which we do not test: upgrade to 3.7 or newer",
    )


def test_partitions_that_were_added_to_topics_are_reported_as_no_mistake() -> None:
    more = replace(found(REQUESTS), partitions=16)
    look = replace(WELL, topics={**WELL.topics, REQUESTS: more}, layout=Layout(12))

    assert findings_of(look)["topics"][0] == "ok"
    assert findings_of(look)["partitions"] == (
        "warning",
        (
            "some topics have more partitions (requests 16) than the 12 of this deployment: "
            "records in the added partitions of requests are forwarded to those that own them; "
            "`answerbus topics move` changes the number"
        ),
    )


def test_a_move_that_was_cut_short_is_wrong() -> None:
    verdict, text = findings_of(replace(WELL, layout=Layout(12, moving_to=24)))["topics"]

    assert verdict == "wrong"
    assert text.startswith("A move from 12 to 24 partitions has begun and has not ended: run ")


def test_topics_that_are_missing_or_kept_otherwise() -> None:
    topics = {topic: it for topic, it in WELL.topics.items() if topic is not LEDGER}
    changed = found(RESULTS, {"retention.ms": "1000", "cleanup.policy": "compact"})
    look = replace(WELL, topics={**topics, RESULTS: changed}, group=None)

    assert findings_of(look)["topics"] == (
        "wrong",
        (
            "cleanup.policy of answerbus.results.v1 is compact and should be delete; retention.ms "
            "of answerbus.results.v1 is 1000 and should be 604800000; answerbus.ledger.v1 is "
            "missing: run `answerbus topics apply`"
        ),
    )
    assert "workers" not in findings_of(look)


def test_no_topic_at_all() -> None:
    verdict, text = findings_of(replace(WELL, topics={}, group=None))["topics"]

    assert verdict == "wrong"
    assert text.endswith("is missing; and 4 more: run `answerbus topics apply`")


def test_another_number_of_partitions() -> None:
    verdict, text = findings_of(WELL, KafkaSettings(partitions=6))["topics"]

    assert (verdict, text.split(":")[0]) == (
        "wrong",
        "The topics have 12 partitions and `kafka.partitions` is 6",
    )


@pytest.mark.parametrize(("brokers", "verdict"), [(1, "warning"), (3, "wrong")])
def test_too_few_copies_are_a_mistake_only_where_there_are_brokers_for_more(
    brokers: int, verdict: str
) -> None:
    topics = {topic: found(topic, {"min.insync.replicas": "1"}, 1) for topic in TOPICS}
    reported = findings_of(replace(WELL, cluster=Cluster(brokers, 10, {}), topics=topics))

    assert reported["replication"][0] == reported["in sync"][0] == verdict
    assert reported["replication"][1].startswith("1 copy of requests, results, ")
    assert reported["in sync"][1].startswith("min.insync.replicas is 1: ")


def test_a_topic_that_needs_all_of_its_copies_is_a_warning() -> None:
    topics = {**WELL.topics, RESULTS: found(RESULTS, {"min.insync.replicas": "3"})}
    verdict, text = findings_of(replace(WELL, topics=topics))["in sync"]

    assert verdict == "warning"
    assert text.startswith("min.insync.replicas of results asks for all copies: while a broker ")


def test_kafkas_own_topics_count_too() -> None:
    cluster = replace(WELL.cluster, internal_replicas={"__transaction_state": 1})

    assert findings_of(replace(WELL, cluster=cluster))["replication"] == (
        "wrong",
        (
            "1 copy of __transaction_state: our promises assume 3; run 3 brokers and set the "
            "brokers' `transaction.state.log.replication.factor` to 3 before the topics are made; "
            "`kafka-reassign-partitions.sh` adds copies later"
        ),
    )


@pytest.mark.parametrize(
    ("in_sync", "text"),
    [
        (3, "min.insync.replicas of __transaction_state asks for all copies: while a broker "),
        (1, "min.insync.replicas of __transaction_state is 1: transactions and positions that "),
    ],
)
def test_kafkas_own_topics_can_lose_a_broker_and_nothing_with_it(in_sync: int, text: str) -> None:
    needed = {"__consumer_offsets": 2, "__transaction_state": in_sync}
    cluster = replace(WELL.cluster, internal_in_sync=needed)
    verdict, reported = findings_of(replace(WELL, cluster=cluster))["in sync"]

    assert (verdict, reported[: len(text)]) == ("warning", text)
    assert "with 3 copies or more" in reported  # with fewer, each of them would be needed


@pytest.mark.parametrize("policy", ["delete", ""], ids=["delete", "unknown"])
def test_a_broker_that_does_not_compact(policy: str) -> None:
    kept = {**WELL.topics, LEDGER: found(LEDGER, {"cleanup.policy": policy})}

    verdict, text = findings_of(replace(WELL, topics=kept))["compaction"]

    assert verdict == "wrong"
    assert text.startswith("the broker does not compact ledger, where the last record of each key ")


@pytest.mark.parametrize(
    ("settings", "verdict", "text"),
    [
        (
            {"diskless.enable": "true", "remote.storage.enable": "true"},
            "wrong",
            "diskless.enable is true for answerbus.requests.v1: such topics have neither trans",
        ),
        (
            {"diskless.enable": "false", "remote.storage.enable": "true"},
            "warning",
            "remote.storage.enable is true for answerbus.requests.v1: while the remote storage is ",
        ),
        (
            {"diskless.enable": "false", "remote.storage.enable": "false"},
            "ok",
            "all records are on the brokers' disks",
        ),
    ],
)
def test_topics_that_brokers_do_not_hold_themselves(
    settings: Mapping[str, str], verdict: str, text: str
) -> None:
    elsewhere = found(REQUESTS, settings)
    reported = findings_of(replace(WELL, topics={**WELL.topics, REQUESTS: elsewhere}))["storage"]

    assert reported[0] == verdict
    assert reported[1].startswith(text)


def test_unclean_elections() -> None:
    unclean = found(REQUESTS, {"unclean.leader.election.enable": "true"})
    cluster = replace(WELL.cluster, internal_unclean=["__transaction_state"])
    reported = findings_of(replace(WELL, topics={**WELL.topics, REQUESTS: unclean}))
    of_kafka = findings_of(replace(WELL, cluster=cluster))

    for name, found_wrong in (("requests", reported), ("__transaction_state", of_kafka)):
        assert found_wrong["elections"] == (
            "wrong",
            (
                f"unclean.leader.election.enable is true for {name}: what is committed may vanish; "
                "set it to false"
            ),
        )


@pytest.mark.parametrize(
    ("told_s", "verdict", "text"),
    [
        (0.5, "ok", "ours and the broker's differ by less than a second or so"),
        (2.9, "ok", "ours and the broker's differ by less than a second or so"),
        (-5.0, "warning", "the broker's clock is 5.0 s behind ours"),
        (7.0, "warning", "the broker's clock is 5.0 s ahead of ours"),
        (-31.0, "wrong", "the broker's clock is 31.0 s behind ours"),
        (33.0, "wrong", "the broker's clock is 31.0 s ahead of ours"),
    ],
)
def test_a_clock_is_judged_by_what_must_differ(told_s: float, verdict: str, text: str) -> None:
    """The answer took two seconds: within them, nobody knows."""
    time = BrokerTime(NOW, after(told_s), NOW + timedelta(seconds=2))
    found_verdict, said_of_it = findings_of(replace(WELL, time=time))["clock"]

    assert (found_verdict, said_of_it.split(":")[0]) == (verdict, text)


def test_a_cluster_that_does_not_tell_its_time() -> None:
    assert findings_of(replace(WELL, time=None))["clock"][0] == "warning"


def test_without_workers() -> None:
    look = replace(WELL, group=ConsumerGroup("g", 0, {0: 1_200, 1: 34}))

    assert findings_of(look)["workers"] == (
        "warning",
        (
            "no worker is in the group g, 1,234 records to be read in 2 partitions: start "
            "`answerbus worker`"
        ),
    )


def test_a_transaction_that_stays_open() -> None:
    verdict, text = findings_of(replace(WELL, other_groups=["beta"]))["groups"]
    assert verdict == "wrong"
    assert "workers of another group, beta, read the same requests" in text
    verdict, text = findings_of(replace(WELL, stuck=["answerbus.results.v1-3"]))["transactions"]

    assert verdict == "warning"
    assert text.startswith("one is open in answerbus.results.v1-3 for 5 s and more")


@pytest.mark.parametrize(
    ("most", "verdict"), [(1_024, "warning"), (1_200, "ok"), (65_536, "ok"), (-1, "ok")]
)
def test_open_files(most: int, verdict: str) -> None:
    finding = judged_files(most, 1_200)

    assert isinstance(finding, Finding)
    assert finding.verdict == verdict


def test_a_distribution_that_is_not_installed_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "DISTRIBUTIONS", ("answerbus", "answerbus-of-no-index"))

    assert examine.libraries() == Finding(
        "libraries", "wrong", "answerbus-of-no-index is missing: install answerbus again"
    )
