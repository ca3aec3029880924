"""Attempts, ledger and terminals of a partition that agree, and each way in which they may not."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from answerbus.dead_letter import DeadlinePassed
from answerbus.topics import ATTEMPTS, LEDGER, RESULTS
from services.operators.audit.findings import MEANINGS, AuditFinding, FindingKind
from services.operators.audit.verification import LEDGER_LAG_MS_MAX, Verification
from services.operators.audit.verified import Verified
from services.operators.records.stored import Stored
from services.text.digest import canonical_digest
from services.worker.core.attempt.reply import CallFacts, Refused, TimedOut
from tests.unit.operators.audit.verifying import CLAIMING, verified
from tests.unit.operators.partition import WORKFLOW, Partition, changed
from tests.unit.worker.builders import answered

Records = list[Stored]


@pytest.fixture
def partition() -> Partition:
    """All there can be: retries, a refusal, a lost call, a letter, a call that is under way."""
    partition = Partition()
    budget = {"attempts": 20}
    partition.ask("r-1", budget=budget)
    partition.call(TimedOut(9.0))
    partition.clock += timedelta(seconds=60)
    partition.call()
    partition.ask("r-2", budget=budget)
    partition.call(Refused("no", CallFacts()))
    partition.ask("r-3", budget=budget)
    ticket, spend = partition.spend()
    partition.lose(spend)
    partition.dead_letter(ticket, DeadlinePassed())
    partition.ask("r-4", budget=budget)
    partition.call(answered(used=None))
    partition.ask("r-5", budget=budget)
    partition.spend()
    return partition


def attempts(records: Records) -> Records:
    return [stored for stored in records if stored.topic is ATTEMPTS]


def without(records: Records, gone: Stored) -> Records:
    return [stored for stored in records if stored is not gone]


def instead(records: Records, old: Stored, new: Stored) -> Records:
    return [new if stored is old else stored for stored in records]


def rehashed(stored: Stored, **fields: Any) -> Stored:
    """Changed by one who knows how the hash is made."""
    body = {**json.loads(stored.value or b""), **fields}
    body.pop("hash")
    return changed(stored, **fields, hash=canonical_digest(body))


def only(found: Verified) -> AuditFinding:
    (one,) = found.breaks
    return one


def test_what_a_lane_has_written_is_whole(partition: Partition) -> None:
    assert verified(partition.stored) == Verified(attempts=5, accounts=1, in_flight=1)


def test_fields_that_we_do_not_know_are_hashed_as_they_are_written(partition: Partition) -> None:
    last = attempts(partition.stored)[-1]
    newer = rehashed(last, from_the_future=1.50)
    records = instead(partition.stored, last, newer)

    assert [found.kind for found in verified(records).breaks] == ["head"]


@pytest.mark.parametrize("number", range(5))
def test_a_changed_record_is_named(partition: Partition, number: int) -> None:
    record = attempts(partition.stored)[number]
    forged = changed(record, worker="someone else")

    found = only(verified(instead(partition.stored, record, forged)))

    assert (found.kind, found.account_id, found.place) == ("changed", WORKFLOW, record.place)
    assert found.event_id == json.loads(record.value or b"")["event_id"]
    assert found.expected.startswith("its hash to be sha256:")


@pytest.mark.parametrize("number", range(4))
def test_a_record_that_is_changed_with_its_hash_breaks_the_link_behind_it(
    partition: Partition, number: int
) -> None:
    record, behind = attempts(partition.stored)[number : number + 2]
    forged = rehashed(record, worker="someone else")

    found = only(verified(instead(partition.stored, record, forged)))

    assert (found.kind, found.place) == ("link", behind.place)


@pytest.mark.parametrize(
    "later_s", [LEDGER_LAG_MS_MAX / 1_000 - 60, LEDGER_LAG_MS_MAX / 1_000 + 60]
)
def test_an_attempt_that_the_ledger_does_not_know_is_named_once_it_is_too_old_to_be_new(
    partition: Partition, later_s: float
) -> None:
    last = attempts(partition.stored)[-1]
    said = json.loads(last.value or b"")
    ids = {"request_id": "r-9", "event_id": "r-9.attempt.1", "attempt": 1, "outcome": "retry"}
    forged = replace(rehashed(last, previous=said["hash"], **ids), offset=last.offset + 1)
    partition.clock += timedelta(seconds=later_s)
    partition.put(LEDGER, b"account:of-another", None)

    breaks = verified([*partition.stored, forged]).breaks

    late = later_s * 1_000 > LEDGER_LAG_MS_MAX
    assert [(found.kind, found.place) for found in breaks] == [("head", forged.place)] * late


def test_the_last_record_changed_with_its_hash_is_not_the_ledgers_head(
    partition: Partition,
) -> None:
    last = attempts(partition.stored)[-1]
    forged = rehashed(last, worker="someone else")

    found = only(verified(instead(partition.stored, last, forged)))

    assert (found.kind, found.place) == ("head", partition.of(LEDGER)[-1].place)


@pytest.mark.parametrize("number", range(5))
def test_a_dropped_record_is_missed(partition: Partition, number: int) -> None:
    records = attempts(partition.stored)

    found = only(verified(without(partition.stored, records[number])))

    if number < 4:
        assert (found.kind, found.place) == ("link", records[number + 1].place)
    else:
        assert found.kind == "head"


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_doubled_record_is_named(partition: Partition, number: int, is_at_once: object) -> None:
    records = attempts(partition.stored)
    copy = replace(records[number], offset=99)
    others = [stored for stored in partition.stored if stored.topic is not ATTEMPTS]
    at = number + 1 if is_at_once else len(records)

    found = only(verified([*others, *records[:at], copy, *records[at:]]))

    assert (found.kind, found.place) == ("twice", copy.place)


def test_two_records_that_changed_places_are_out_of_order(partition: Partition) -> None:
    first, second, *_ = records = attempts(partition.stored)
    others = [stored for stored in partition.stored if stored.topic is not ATTEMPTS]

    found = only(verified([*others, second, first, *records[2:]]))

    assert (found.kind, found.place) == ("link", second.place)


@pytest.mark.parametrize("kept", range(4))
def test_a_chain_whose_beginning_is_past_retention_begins_in_the_middle(
    partition: Partition, kept: int
) -> None:
    gone = attempts(partition.stored)[: kept + 1]
    records = [stored for stored in partition.stored if stored not in gone]
    terminals = {stored.topic for stored in records} - {ATTEMPTS, LEDGER}

    found = verified(records, cut={ATTEMPTS, *terminals})

    assert (found.breaks, found.begun_in_the_middle) == ([], 1)


def test_an_account_that_the_ledger_no_longer_keeps_is_no_break(partition: Partition) -> None:
    records = [stored for stored in partition.stored if stored.topic is not LEDGER]

    assert verified(records) == Verified(attempts=5, accounts=1, without_ledger=1)


def test_what_comes_while_one_reads_is_no_break(partition: Partition) -> None:
    """The ledger is read first, so that it may be behind."""
    behind = [
        stored
        for stored in partition.stored
        if stored.topic is ATTEMPTS or stored.at_ms <= partition.of(RESULTS)[0].at_ms
    ]

    assert verified(behind).breaks == []


def account(partition: Partition, **fields: Any) -> Records:
    last = partition.of(LEDGER)[-1]
    return instead(partition.stored, last, changed(last, **fields))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("spent", {"spent": {"attempts": 3, "tokens": 10_000, "micro_usd": 0}}),
        ("spent", {"spent": {"attempts": 5, "tokens": 1, "micro_usd": 0}}),
        ("limit", {"limit": {"attempts": 4}}),
        ("head", {"last_attempt_hash": "sha256:" + "1" * 64}),
        ("number", {"open": [{"request_id": "r-5", "attempts": 2}]}),
        (
            "in_flight",
            {
                "in_flight": [
                    {
                        "request_id": "r-1",
                        "attempt": 2,
                        "tokens": 1,
                        "micro_usd": 0,
                        "at": "2026-11-21T10:00:00.000Z",
                    }
                ],
                "limit": {"attempts": 20},
            },
        ),
    ],
    ids=["attempts", "tokens", "limit", "head", "number", "in_flight"],
)
def test_a_ledger_that_says_something_else_is_found(
    partition: Partition, kind: str, change: dict[str, Any]
) -> None:
    assert only(verified(account(partition, **change))).kind == kind


def result(partition: Partition, change: Callable[[dict[str, Any]], Any]) -> Records:
    record = partition.of(RESULTS)[0]
    body = json.loads(record.value or b"")
    change(body)
    return instead(partition.stored, record, changed(record, **body))


def rechained(partition: Partition, number: int, **fields: Any) -> Records:
    """One attempt changed by someone who can hash, and who mends chain and ledger behind it."""
    records, head = list(partition.stored), None
    for place, old in enumerate(attempts(partition.stored)):
        changes = fields if place == number else {}
        new = rehashed(old, **changes, previous=head)
        head = json.loads(new.value or b"")["hash"]
        records = instead(records, old, new)
    account = partition.of(LEDGER)[-1]
    return instead(records, account, changed(account, last_attempt_hash=head))


def test_a_chain_is_not_the_only_thing_that_must_hold(partition: Partition) -> None:
    assert verified(rechained(partition, 0)).breaks == []
    skipped = only(verified(rechained(partition, 0, attempt=2)))
    again = only(verified(rechained(partition, 1, attempt=1)))
    uncounted = only(verified(rechained(partition, 0, counted=False)))
    dear = {"input_tokens": 99_999, "output_tokens": 1}
    dearer = only(verified(rechained(partition, 1, usage=dear)))

    assert (skipped.kind, skipped.expected) == ("number", "attempt 1 of r-1")
    assert (again.kind, again.expected) == ("number", "attempt 2 of r-1")
    assert [uncounted.kind, dearer.kind] == ["spent", "spent"]


def test_a_request_with_a_dead_letter_may_be_asked_again_when_its_id_has_expired() -> None:
    partition = Partition()
    partition.ask("r-1", budget={"attempts": 9})
    partition.call(TimedOut(9.0))
    partition.clock += timedelta(seconds=60)
    ticket, spend = partition.spend()
    partition.lose(spend)
    partition.dead_letter(ticket, DeadlinePassed())
    partition.clock += timedelta(days=2)
    partition.ask("r-1", budget={"attempts": 9}, ttl_s=9)
    partition.call()

    assert [
        json.loads(attempt.value or b"")["attempt"] for attempt in attempts(partition.stored)
    ] == [
        1,
        2,
        1,
    ]
    assert verified(partition.stored) == Verified(attempts=3, accounts=1)


def test_an_answered_request_may_be_asked_again_when_its_id_has_expired() -> None:
    partition = Partition()
    for _ in range(2):
        partition.ask("r-1", budget={"attempts": 9})
        partition.call(TimedOut(9.0))
        partition.clock += timedelta(seconds=60)
        partition.call()
        partition.clock += timedelta(days=2)

    assert verified(partition.stored) == Verified(attempts=4, accounts=1)


def test_a_terminal_that_counts_otherwise_is_found(partition: Partition) -> None:
    records = result(partition, lambda body: body["account"]["spent"].update(attempts=1))

    found = only(verified(records))

    assert (found.kind, found.event_id) == ("spent", "r-1.attempt.2")
    assert found.expected.startswith("its result to say 2 attempts, ")


def test_a_terminal_without_its_attempt_is_found(partition: Partition) -> None:
    extra = replace(partition.of(RESULTS)[0], offset=99)
    extra = changed(extra, request_id="r-77")

    found = only(verified([*partition.stored, extra]))

    assert (found.kind, found.event_id, found.place) == (
        "terminal",
        "r-77.attempt.2",
        extra.place,
    )


def test_an_attempt_whose_terminal_is_gone_is_found_unless_it_was_deleted(
    partition: Partition,
) -> None:
    records = without(partition.stored, partition.of(RESULTS)[0])

    found = only(verified(records))

    assert (found.kind, found.event_id) == ("no_terminal", "r-1.attempt.2")
    assert verified(records, cut={RESULTS}).breaks == []


@pytest.mark.parametrize("value", [None, b"{}", b"rubbish", b'{"kind":"attempt","kind":"attempt"}'])
def test_a_record_that_is_no_attempt_is_named(partition: Partition, value: bytes | None) -> None:
    record = partition.put(ATTEMPTS, b"k", value)

    found = only(verified(partition.stored))

    assert (found.kind, found.place) == ("unreadable", record.place)


def test_an_account_that_rested_for_a_week_starts_again() -> None:
    partition = Partition()
    for name in ("r-1", "r-2"):
        partition.ask(name)
        partition.call()
        partition.clock += timedelta(days=8)

    assert [
        json.loads(stored.value or b"")["previous"] for stored in attempts(partition.stored)
    ] == [None, None]
    assert verified(partition.stored) == Verified(attempts=2, accounts=1)


def test_of_one_workflow_alone(partition: Partition) -> None:
    bad = partition.put(ATTEMPTS, b"k", attempts(partition.stored)[0].value)
    others = changed(bad, workflow_id="another")
    terminal = changed(partition.of(RESULTS)[0], workflow_id="another", request_id="r-77")
    records = [*instead(partition.stored, bad, others), replace(terminal, offset=99)]

    assert verified(records, workflow_id=WORKFLOW) == Verified(attempts=5, accounts=1, in_flight=1)
    assert verified(records, workflow_id="none").attempts == 0
    assert only(verified(records)).kind == "changed"  # the first of its account


def test_more_may_come_until_all_claims_are_met(partition: Partition) -> None:
    verification = Verification(cut=())
    for stored in partition.stored:
        if stored.topic in CLAIMING:
            verification.claim(stored)
    *most, last = attempts(partition.stored)
    for stored in most:
        verification.attempt(stored)

    assert not verification.is_settled()
    verification.attempt(last)
    assert verification.is_settled()


def test_what_is_broken_is_not_waited_for(partition: Partition) -> None:
    first, *others = attempts(partition.stored)
    verification = Verification(cut=())
    for stored in partition.stored:
        if stored.topic in CLAIMING:
            verification.claim(stored)
    for stored in others:
        verification.attempt(stored)

    assert first.offset == 0
    assert verification.is_settled()


def test_every_kind_of_break_has_its_words() -> None:
    assert MEANINGS.keys() == set(get_args(FindingKind))
