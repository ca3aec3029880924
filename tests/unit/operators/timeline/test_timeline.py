"""A workflow's timeline in one order, also if clocks and topics disagree."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic_core import to_json

from answerbus.account_id import replay_account
from answerbus.dead_letter import DeadLetter, Dismissed, Replayed, UnknownProfile
from answerbus.outcome import Origin
from answerbus.topics import LEDGER, REQUESTS, RETRIES
from services.operators.records.stored import Stored
from services.operators.timeline.entry import STYLES, TimelineEntry
from services.operators.timeline.timeline import CLOCK_SKEW_MAX, may_concern, origin_of, timeline
from services.records.forwarding import header_of
from services.worker.core.attempt.fallback import Condition, Hop
from services.worker.core.attempt.reply import CallFacts, Refused, TimedOut
from tests.unit.operators.partition import WORKFLOW, Partition
from tests.unit.worker.builders import NOW, after, call, plan


def texts(entries: tuple[TimelineEntry, ...]) -> list[tuple[str, str | None, str]]:
    return [(entry.kind, entry.request_id, entry.text) for entry in entries]


def kinds(entries: tuple[TimelineEntry, ...]) -> list[str]:
    return [entry.kind for entry in entries]


@pytest.fixture
def partition() -> Partition:
    """One request is tried twice and answered; its twin comes later, and a stranger beside it."""
    partition = Partition()
    partition.ask()
    partition.call(TimedOut(9.0))
    partition.clock += timedelta(seconds=60)
    partition.ask()
    partition.call()
    return partition


def test_a_request_that_is_tried_twice_and_asked_again(partition: Partition) -> None:
    entries = timeline(WORKFLOW, partition.stored)

    assert texts(entries) == [
        ("request", "r-1", "asked for text on profile default"),
        (
            "attempt",
            "r-1",
            "attempt 1 by a-model ended in a retry after 0.0 s: no answer within 9 s",
        ),
        ("retry_request", "r-1", entries[2].text),
        ("duplicate", "r-1", "asked again with the same body: a duplicate"),
        ("attempt", "r-1", "attempt 2 by a-model ended in a result after 0.0 s"),
        ("result", "r-1", "answered: attempt 2, a-model, 10 + 5 tokens, 65.0 s"),
        ("retry_ended", "r-1", "taken off the list of retries"),
        ("closed", "r-1", "closed in the ledger as result; later copies are dropped"),
    ]
    assert entries[2].text.startswith("to be tried again: attempt 2 in ")
    assert entries[2].text.endswith("since no answer within 9 s")
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    assert entries[0].place == partition.stored[0].place


def test_the_order_of_the_records_does_not_matter(partition: Partition) -> None:
    expected = timeline(WORKFLOW, partition.stored)
    shuffled = [*partition.stored, *partition.stored]
    random.Random(7).shuffle(shuffled)

    assert timeline(WORKFLOW, shuffled) == expected


@pytest.mark.parametrize("skew", [timedelta(milliseconds=0), timedelta(minutes=4)])
def test_causes_come_first_when_the_brokers_clock_is_ahead(
    partition: Partition, skew: timedelta
) -> None:
    expected = kinds(timeline(WORKFLOW, partition.stored))
    ahead = int(skew.total_seconds() * 1000)
    records = [
        replace(stored, at_ms=stored.at_ms + ahead) if stored.topic is REQUESTS else stored
        for stored in partition.stored
    ]

    found = kinds(timeline(WORKFLOW, records))

    assert [kind for kind in found if kind != "duplicate"] == [
        kind for kind in expected if kind != "duplicate"
    ]


def test_what_is_much_later_is_not_taken_for_a_cause(partition: Partition) -> None:
    late = int((CLOCK_SKEW_MAX + timedelta(minutes=2)).total_seconds() * 1000)
    records = [
        replace(stored, at_ms=stored.at_ms + late) if stored.topic is RETRIES else stored
        for stored in partition.stored
    ]

    assert kinds(timeline(WORKFLOW, records))[-1] == "retry_ended"


def test_records_of_other_requests_are_not_shown(partition: Partition) -> None:
    expected = timeline(WORKFLOW, partition.stored)
    other = Replayed(
        dead_letter_id="r-7.dead-letter", request_id="r-8", round=1, by="ops", reason="", at=NOW
    )
    partition.tell(other)
    partition.put(REQUESTS, None, b"rubbish \\")
    partition.put(RETRIES, b"r-9", None)

    assert timeline(WORKFLOW, partition.stored) == expected
    assert timeline("another", partition.stored) == ()


def test_a_dead_letter_that_is_replayed_and_then_answered() -> None:
    partition = Partition()
    partition.ask()
    ticket = partition.lane_state.queue.take()
    assert ticket
    dead_letter = partition.dead_letter(ticket, UnknownProfile())
    assert isinstance(dead_letter, DeadLetter)
    replay = {
        "dead_letter_id": dead_letter.dead_letter_id,
        "round": 1,
        "account": replay_account(WORKFLOW, dead_letter.dead_letter_id),
        "by": "ops@acme",
        "edited": False,
    }
    partition.ask("r-1.replay.1", replay=replay)
    partition.tell(
        Replayed(
            dead_letter_id=dead_letter.dead_letter_id,
            request_id="r-1.replay.1",
            round=1,
            by="ops@acme",
            reason="profile added",
            at=partition.clock + timedelta(seconds=30),  # a clock that is ahead
        )
    )
    partition.call()

    assert texts(timeline(WORKFLOW, partition.stored)) == [
        ("request", "r-1", "asked for text on profile default"),
        (
            "dead_letter",
            "r-1",
            "dead letter: The workers have no profile of that name.",
        ),
        ("closed", "r-1", "closed in the ledger as dead_letter; later copies are dropped"),
        (
            "replayed",
            "r-1",
            "replayed as r-1.replay.1 (round 1) by ops@acme: profile added",
        ),
        (
            "request",
            "r-1.replay.1",
            "asked for text on profile default, round 1 of r-1.dead-letter",
        ),
        ("attempt", "r-1.replay.1", "attempt 1 by a-model ended in a result after 0.0 s"),
        ("result", "r-1.replay.1", "answered: attempt 1, a-model, 10 + 5 tokens, 2.0 s"),
        ("closed", "r-1.replay.1", "closed in the ledger as result; later copies are dropped"),
    ]


def test_a_dead_letter_that_is_put_aside(partition: Partition) -> None:
    dead_letter = "r-1.dead-letter"
    partition.tell(Dismissed(dead_letter_id=dead_letter, by="ops", reason="gone", at=after(999)))

    assert texts(timeline(WORKFLOW, partition.stored))[-1] == (
        "dismissed",
        "r-1",
        "dismissed by ops: gone",
    )


def test_a_call_in_flight_is_listed_until_it_is_settled() -> None:
    partition = Partition()
    partition.ask()
    ticket, spend = partition.spend()

    assert texts(timeline(WORKFLOW, partition.stored))[-1] == (
        "in_flight",
        "r-1",
        "attempt 1 is paid for, and its outcome is not known yet",
    )

    behind = partition.of(LEDGER)
    partition.settle(ticket, spend)
    ledger_is_behind = [one for one in partition.stored if one.topic is not LEDGER or one in behind]

    assert "in_flight" not in kinds(timeline(WORKFLOW, partition.stored))
    assert "in_flight" not in kinds(timeline(WORKFLOW, ledger_is_behind))


def test_a_forwarded_copy_says_where_from_and_a_conflict_that_it_is_one(
    partition: Partition,
) -> None:
    place = Origin(topic="t", partition=5, offset=99, timestamp=NOW)
    partition.ask("r-2", headers=[header_of(place)])
    partition.ask("r-1", ttl_s=5)
    (copy,) = [stored for stored in partition.of(REQUESTS) if stored.headers]

    entries = [one for one in timeline(WORKFLOW, partition.stored) if one.seen.topic is REQUESTS]

    assert texts(tuple(entries))[2:] == [
        ("forwarded", "r-2", "forwarded from partition 5, offset 99, to where it belongs"),
        ("conflict", "r-1", "asked with another body under a known id: a conflict"),
    ]
    origin = origin_of(copy)
    assert origin
    assert (origin.topic, origin.partition, origin.offset) == (REQUESTS, 5, 99)


def test_words_of_the_model_are_kept_apart() -> None:
    partition = Partition()
    partition.ask()
    partition.call(Refused("my secret reason", CallFacts()))

    entries = timeline(WORKFLOW, partition.stored)

    assert not [entry for entry in entries if "secret" in entry.text]
    assert {entry.kind for entry in entries if entry.said} == {"refusal", "attempt"}
    assert {entry.said for entry in entries} == {"my secret reason", None}


def test_every_kind_has_a_style() -> None:
    assert {"request", "attempt", "in_flight", "replayed", "dead_letter"} <= STYLES.keys()


@pytest.mark.parametrize(
    "workflow_id", ["w-1", "w\u00e9", 'a"b', "a/b", "a\\b", "\n", "\u007f", "\U0001f600"]
)
@pytest.mark.parametrize(
    "spell",
    [
        json.dumps,
        lambda body: json.dumps(body, ensure_ascii=False),
        lambda body: json.dumps(body).replace("/", "\\/"),
        lambda body: "".join(f"\\u{ord(c):04x}" if c in "w1" else c for c in json.dumps(body)),
        lambda body: to_json(body).decode(),
    ],
)
def test_what_may_concern_a_workflow_is_never_thrown_away(
    workflow_id: str, spell: Callable[[object], str]
) -> None:
    value = spell({"workflow_id": workflow_id}).encode()

    assert may_concern(workflow_id, Stored(REQUESTS, 0, 0, 0, None, value, ()))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"workflow_id":"other","text":"two\\nlines"}', False),
        (b'{"kind":"replayed"}', True),
        (b'{"kind":"dismissed"}', True),
        (None, True),
    ],
)
def test_most_records_of_other_workflows_are_recognized_unparsed(
    value: bytes | None, expected: object
) -> None:
    assert may_concern("w-1", Stored(REQUESTS, 0, 0, 0, None, value, ())) is expected


def test_an_attempt_of_a_fallback_names_its_profile_and_why_it_was_asked() -> None:
    partition = Partition()
    partition.ask()
    lane_request, spend = partition.spend()
    hop = Hop("default", "large", Condition("invalid", 2))
    large = replace(plan().profile, name="large", model="a-large-model")
    partition.settle_call(
        replace(call(lane_request, spend), plan=replace(plan(), profile=large, hops=(hop,)))
    )

    who = "a-large-model (profile large in place of default: invalid >= 2)"
    told = [entry.text for entry in timeline(WORKFLOW, partition.stored)]
    assert told[1:3] == [
        f"attempt 1 by {who} ended in a result after 0.0 s",
        f"answered: attempt 1, {who}, 10 + 5 tokens, 2.0 s",
    ]


def test_a_record_of_the_workflow_that_is_not_json_is_shown_as_invalid() -> None:
    value = rb'{"request_id":"r-1","workflow_id":"w-1","text":"cut \ud83d"}'

    (entry,) = timeline("w-1", [Stored(REQUESTS, 0, 0, 0, None, value, ())])

    assert (entry.kind, entry.request_id) == ("undecodable", "r-1")
    assert entry.text.startswith("invalid record: all of it: one JSON document: both halves of")
