"""The table of topics keeps its own rules: nothing lost, nothing too large, everyone named."""

import json
from pathlib import Path

import pytest

from answerbus import limits
from answerbus.client.bus import topic_named
from answerbus.envelope import Undecodable, decode
from answerbus.event import key, request_of, workflow_of
from answerbus.schema_export import event_models
from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    EVERY_TOPIC,
    LEASES,
    LEDGER,
    REQUESTS,
    RETRIES,
    TOPIC_OF_KIND,
    TOPICS,
    Topic,
    tool_calls,
    toolset_cards,
)

BROKER_RECORD_BYTES_MAX = 1_048_588  # message.max.bytes of a broker that nobody has configured
EXAMPLES = sorted((Path(__file__).parents[2] / "contracts/examples").rglob("*.json"))
HOUR_MS = 3_600_000
OPENING_MS_MAX = 600_000
SEGMENT_BYTES_MAX = 16 * 1024 * 1024

topics = pytest.mark.parametrize("topic", EVERY_TOPIC, ids=lambda topic: topic.name)


def test_every_kind_of_event_is_in_exactly_one_topic() -> None:
    """But `skipped`, beside the record that it passes by, and what lanes say to each other."""
    listed = [kind for topic in EVERY_TOPIC for kind in topic.events]

    assert sorted(listed) == sorted([*event_models(), "skipped", "skipped", *LEASES.events])
    assert TOPIC_OF_KIND.keys() == event_models().keys()


def test_names_are_unique_and_versioned() -> None:
    names = [topic.full_name("prefix") for topic in EVERY_TOPIC]

    assert len(set(names)) == len(EVERY_TOPIC)
    assert REQUESTS.full_name() == "answerbus.requests.v1"
    assert all(name.startswith("prefix.") and name.endswith(".v1") for name in names)


@topics
def test_a_topic_has_a_purpose_writers_and_readers(topic: Topic) -> None:
    assert topic.summary.endswith(".")
    assert topic.events
    assert topic.writers
    assert topic.readers
    assert len(set(topic.writers)) == len(topic.writers)
    assert len(set(topic.readers)) == len(topic.readers)


@topics
def test_what_is_deleted_has_an_age_and_what_is_compacted_alone_has_none(topic: Topic) -> None:
    assert (topic.retention_ms is None) is (topic.cleanup == "compact")
    assert topic.settings()["cleanup.policy"] == topic.cleanup
    assert topic.settings().get("retention.ms") == (
        None if topic.retention_ms is None else str(topic.retention_ms)
    )


@topics
def test_what_is_compacted_says_how_soon(topic: Topic) -> None:
    """By default Kafka compacts nothing before a segment has 1 GiB, or is seven days old."""
    assert (topic.segments is not None) is ("compact" in topic.cleanup)
    if topic.segments is None:
        return
    settings = topic.settings()
    assert int(settings["segment.bytes"]) <= SEGMENT_BYTES_MAX
    assert int(settings["segment.bytes"]) > int(settings["max.message.bytes"])
    assert int(settings["segment.ms"]) <= HOUR_MS
    assert 0 < float(settings["min.cleanable.dirty.ratio"]) <= 0.25
    assert int(settings["delete.retention.ms"]) >= OPENING_MS_MAX


def test_the_end_of_a_retry_is_kept_longer_than_any_reading_takes() -> None:
    """Or a lane would take up a request that has had its outcome."""
    assert RETRIES.segments is not None
    assert RETRIES.segments.nulls_ms >= 24 * HOUR_MS


@topics
def test_records_fit_a_broker_with_default_settings(topic: Topic) -> None:
    assert topic.record_bytes_max <= limits.RECORD_BYTES_MAX
    assert int(topic.settings()["max.message.bytes"]) <= BROKER_RECORD_BYTES_MAX


def test_a_retry_and_a_dead_letter_can_hold_the_largest_request_and_what_they_add() -> None:
    for topic in (RETRIES, DEAD_LETTERS):
        needed = limits.REQUEST_BYTES_MAX + limits.ENVELOPE_EXTRA_BYTES_MAX
        assert topic.record_bytes_max > needed, topic.name


def test_a_dead_letter_can_hold_the_raw_bytes_and_headers_that_it_keeps() -> None:
    """Base64 makes four bytes of three; a header has a name and a value."""
    header = limits.RAW_HEADER_BYTES_MAX + limits.RAW_HEADER_BYTES_MAX * 4 // 3 + 16
    raw = limits.RAW_BYTES_MAX * 4 // 3 + limits.RAW_HEADERS_MAX * header

    assert raw + limits.ENVELOPE_EXTRA_BYTES_MAX < DEAD_LETTERS.record_bytes_max


def test_what_people_examine_is_kept_longer_than_its_subject() -> None:
    kept = {topic.name: topic.retention_ms or 0 for topic in TOPICS}
    flow = max(kept["requests"], kept["results"], kept["refusals"])

    assert DEAD_LETTERS.retention_ms is not None
    assert DEAD_LETTERS.retention_ms > flow
    assert ATTEMPTS.retention_ms is not None
    assert ATTEMPTS.retention_ms > flow


def test_the_ledger_remembers_as_long_as_requests_are_kept() -> None:
    """Or a request that is read late would find its account and its closed id forgotten."""
    assert LEDGER.retention_ms is not None
    assert REQUESTS.retention_ms is not None
    assert LEDGER.retention_ms >= REQUESTS.retention_ms


def test_the_broker_says_when_a_record_came() -> None:
    """Deadlines, ages and retention count from there: no clock of a client matters."""
    times = {topic.settings()["message.timestamp.type"] for topic in EVERY_TOPIC}

    assert times == {"LogAppendTime"}


def test_an_ended_retry_stays_readable_for_watchers() -> None:
    assert int(RETRIES.settings()["min.compaction.lag.ms"]) >= HOUR_MS


def test_each_toolset_has_a_topic_for_its_calls_and_all_have_one_for_their_cards() -> None:
    orders, files = tool_calls("orders"), tool_calls("files")

    assert orders.full_name() == "answerbus.tools.orders.v1"
    assert orders.settings() == files.settings()
    assert orders.settings()["retention.ms"] == str(24 * HOUR_MS)
    assert toolset_cards("orders").full_name() == "answerbus.toolsets.orders.v1"
    assert toolset_cards("orders").partitions == 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_key_of_an_event_is_what_its_topic_says(path: Path) -> None:
    event = decode(path.read_bytes())
    assert not isinstance(event, Undecodable)

    match TOPIC_OF_KIND[event.kind].key:
        case "workflow_id":
            assert key(event) == workflow_of(event)
        case "workflow_id or budget":
            body = json.loads(path.read_bytes())
            assert key(event) == body.get("workflow_id", body.get("budget"))
        case "request":
            assert key(event) == f"{request_of(event)}@{workflow_of(event)}"
        case "dead_letter_id":
            assert key(event) == json.loads(path.read_bytes())["dead_letter_id"]
        case "tool":
            body = json.loads(path.read_bytes())
            assert key(event) == f"{body['toolset']}.{body['card']['name']}"
        case "call_id" | "toolset" as name:
            body = json.loads(path.read_bytes())
            assert key(event) == body.get("call", body)[name]
        case "run":
            # A cancellation of a workflow is of no request.
            subject = key(event).partition("@")[0].partition("/")[0]
            assert subject == (request_of(event) or "")
        case "ledger" | "budget":
            assert key(event).partition(":")[0] == event.kind


def test_topics_are_known_by_their_names_on_the_broker() -> None:
    for topic in (REQUESTS, toolset_cards("orders"), tool_calls("orders")):
        assert topic_named(topic.full_name("acme.dev"), "acme.dev") == topic
        assert topic_named(topic.full_name("acme"), "acme.dev") is None
    for name in ("acme.tools..v1", "acme.tools.Orders.v1", "acme.tools.a.b.v1", "acme.toolsets.v1"):
        assert topic_named(name, "acme") is None
