"""What a lane writes down: each transaction whole, and the offset never ahead of what is done."""

import json
from typing import Any

import pytest

from answerbus import topics
from answerbus.budget import Spent
from answerbus.dead_letter import DeadLetter, UnknownProfile
from answerbus.envelope import decode, encode
from answerbus.failure import Invalid
from answerbus.limits import NOTES_MAX, REQUEST_BYTES_MAX
from answerbus.outcome import Result, RetryRequest
from answerbus.private.ledger import LaneRecord
from answerbus.topics import DEAD_LETTERS
from answerbus.wire import bytes_digest
from services.records.forwarding import FORWARDED_HEADER
from services.worker.core.attempt.reply import Reply, Throttled, TimedOut
from services.worker.core.budget.ledger import closed_record
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import DecisionInputs, decide
from services.worker.core.outcome.decision import Decision, Wait
from services.worker.core.request.lane_request import InRetries, LaneRequest
from services.worker.core.schema.resolved import Accepted
from services.worker.lane.state import records
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.record_admission import admit_record
from services.worker.lane.state.records import LaneWrite
from services.worker.ports.kafka import OutRecord, RecordTooLarge
from tests.unit.worker import builders
from tests.unit.worker.builders import (
    NOW,
    PARTITIONS,
    after,
    arrival,
    body,
    lane_state,
    plan,
    prompt,
    workflow_of,
)

OURS, THEIRS = workflow_of(0), workflow_of(1)


def arrive(to: LaneState, value: Any, offset: int) -> LaneWrite | None:
    return admit_record(to, arrival(value, offset), NOW)


def running(of: LaneState, request_id: str = "r-1", offset: int = 0, **more: Any) -> LaneRequest:
    """A request that arrived and has its turn."""
    assert arrive(of, body(request_id, OURS, **more), offset) is None
    lane_request = of.queue.take()
    assert lane_request
    return lane_request


def called(of: LaneState, lane_request: LaneRequest, *outcome: Any) -> Call:
    charged = of.spend(lane_request, plan(), prompt(lane_request.request), NOW)
    assert isinstance(charged, tuple)
    return builders.call(lane_request, charged[0], *outcome)


def settled(of: LaneState, call: Call) -> tuple[Decision, LaneWrite]:
    inputs = DecisionInputs(of.budget_after(call), builders.BACKOFF, 0.5)
    decision, writing = of.commit(call, decide(call, inputs), after(1))
    of.apply_decision(call.lane_request, decision)
    return decision, writing


def written(writing: LaneWrite) -> list[OutRecord]:
    return [record.written() for record in writing.records]


def kinds(writing: LaneWrite | None) -> list[str]:
    assert writing
    return [
        "ended" if record.value is None else json.loads(record.value)["kind"]
        for record in written(writing)
    ]


def test_a_result_goes_out_with_its_attempt_account_closed_entry_and_offset() -> None:
    lane = lane_state()
    lane_request = running(lane)

    decision, writing = settled(lane, called(lane, lane_request))

    assert isinstance(decision, Result)
    assert kinds(writing) == ["result", "attempt", "closed", "account"]
    assert {record.partition for record in writing.records} == {0}
    assert (writing.offset, len(lane.queue)) == (1, 0)
    account = json.loads(written(writing)[-1].value or b"")
    assert (account["spent"]["attempts"], account["in_flight"], account["open"]) == (1, [], [])


@pytest.mark.parametrize("workflow_id", ["w-1", None])
def test_a_closed_entry_is_written_as_any_event(workflow_id: str | None) -> None:
    closed = closed_record("r-1", workflow_id, bytes_digest(b"body"), "result", 7, NOW)

    assert records.closed_entry(closed, 3) == records.event_record(closed, 3)


@pytest.mark.parametrize(("reply", "counted"), [(TimedOut(9.0), 1), (Throttled(2.0), 0)])
def test_a_decision_sees_the_budget_that_its_commit_leaves(reply: Reply, counted: int) -> None:
    lane = lane_state()
    call = called(lane, running(lane, budget={"attempts": 3}), reply)
    budget = lane.budget_after(call)
    settled(lane, call)
    account = lane.ledger.accounts[call.spend.account_id]

    assert (budget.limit, budget.charged) == (account.limit, account.charged)
    assert (budget.charged[0], budget.attempts_left) == (counted, 3 - counted)


def test_the_offset_waits_for_the_smallest_that_is_unfinished() -> None:
    lane = lane_state()
    first = running(lane, "r-1", 3)
    lane.queue.delay(first, after(9), first.progress)  # so that the second may run
    second = running(lane, "r-2", 5, policy={"ordering": "none"})

    assert settled(lane, called(lane, second))[1].offset == 3


def test_a_retry_lets_its_offset_go_and_its_terminal_ends_the_list() -> None:
    lane = lane_state()
    lane_request = running(lane)

    decision, writing = settled(lane, called(lane, lane_request, TimedOut(9.0)))

    assert isinstance(decision, RetryRequest)
    assert kinds(writing) == ["retry_request", "attempt", "account"]
    assert writing.offset == 1
    assert lane_request.progress.stored == InRetries(lane_request.key.record_key().encode())
    assert (lane_request.progress.prior, lane.queue.held) == (decision.prior, 1)

    lane.queue.wake(decision.not_before)
    assert lane.queue.take() is lane_request
    _, writing = settled(lane, called(lane, lane_request))

    assert kinds(writing) == ["result", "attempt", "ended", "closed", "account"]
    ended = writing.records[2]
    assert (ended.topic, ended.key) == (topics.RETRIES, lane_request.key.record_key().encode())


def test_a_short_wait_writes_no_more_than_the_attempt_and_its_account() -> None:
    lane = lane_state()
    lane_request = running(lane)

    decision, writing = settled(lane, called(lane, lane_request, Throttled(2.0)))

    assert isinstance(decision, Wait)
    assert kinds(writing) == ["attempt", "account"]
    attempt = json.loads(written(writing)[0].value or b"")
    assert (attempt["outcome"], attempt["counted"]) == ("released", False)
    assert (writing.offset, lane_request.progress.waits, lane.queue.running) == (0, 1, 1)
    assert lane.ledger.accounts[OURS].spent == Spent()


def test_a_permit_that_was_not_used_goes_back() -> None:
    lane = lane_state()
    lane_request = running(lane)
    call = called(lane, lane_request)

    writing = lane.release(lane_request, call.spend, after(6))

    assert kinds(writing) == ["attempt", "account"]
    assert not lane.ledger.holds(call.spend)
    assert called(lane, lane_request).spend.attempt == 2


def test_a_dead_letter_needs_no_call_and_no_account_before() -> None:
    lane = lane_state()
    lane_request = running(lane)

    dead_letter, writing = lane.dead_letter(lane_request, UnknownProfile(), NOW)
    lane.apply_decision(lane_request, dead_letter)

    assert kinds(writing) == ["dead_letter", "closed", "account"]
    assert (writing.offset, len(lane.queue)) == (1, 0)


def test_duplicates_are_dropped_and_counted() -> None:
    lane = lane_state()
    lane_request = running(lane)

    waiting = arrive(lane, body("r-1", OURS), 1)
    settled(lane, called(lane, lane_request))
    closed = arrive(lane, body("r-1", OURS), 2)

    assert waiting == LaneWrite((), 0)
    assert closed == LaneWrite((), 3)
    assert lane.counters.duplicates == 2


def test_what_was_delivered_before_is_passed_over_without_a_word() -> None:
    lane = lane_state(position=5)

    assert arrive(lane, b"nonsense", 4) is None
    assert lane.watermark.committable == 5


def test_a_misrouted_record_is_forwarded_and_its_place_closed_in_one_transaction() -> None:
    lane = lane_state()
    writing = arrive(lane, body("r-1", THEIRS), 0)

    assert writing
    forwarded, closed = written(writing)
    assert (forwarded.topic, forwarded.partition) == (topics.REQUESTS, 1)
    assert json.loads(closed.value or b"")["outcome"] == "forwarded"
    assert (writing.offset, lane.counters.forwarded) == (1, 1)


def test_a_record_that_is_no_request_becomes_a_dead_letter_about_its_bytes() -> None:
    writing = arrive(lane_state(), b"nonsense", 0)

    assert kinds(writing) == ["dead_letter", "closed"]
    assert writing
    dead_letter = decode(written(writing)[0].value)
    assert isinstance(dead_letter, DeadLetter)
    assert dead_letter.raw
    assert (dead_letter.dead_letter_id, dead_letter.raw.bytes) == (
        "answerbus.requests.v1-0-0.dead-letter",
        8,
    )


def test_the_record_of_a_call_that_outlived_a_reopening_is_no_duplicate() -> None:
    """Its offset stays unfinished until the call is settled."""
    before = lane_state()
    lane_request = running(before, offset=7)
    call = called(before, lane_request)
    after_reopening = lane_state(position=7, ledger=before.ledger)
    after_reopening.queue.adopt(lane_request)

    again = arrive(after_reopening, body("r-1", OURS), 7)

    assert again == LaneWrite((), 7)
    assert after_reopening.counters.duplicates == 0
    assert settled(after_reopening, call)[1].offset == 8


@pytest.mark.parametrize("listed", [False, True])
def test_a_call_settled_before_its_record_comes_again_holds_nothing_back(listed: bool) -> None:
    before = lane_state()
    lane_request = running(before, offset=7)
    call = called(before, lane_request, TimedOut(1.0)) if listed else called(before, lane_request)
    after_reopening = lane_state(position=7, ledger=before.ledger)
    after_reopening.queue.adopt(lane_request)

    settled(after_reopening, call)
    arrive(after_reopening, body("r-1", OURS), 7)

    assert after_reopening.watermark.committable == 8


def test_the_closed_entry_says_up_to_where_a_record_may_come_again() -> None:
    lane = lane_state()
    straight = running(lane, "r-1", 3)
    closed = json.loads(written(settled(lane, called(lane, straight))[1])[-2].value or b"")
    assert closed["offset"] == 3

    retried = running(lane, "r-2", 4)
    settled(lane, called(lane, retried, TimedOut(1.0)))
    lane.queue.wake(after(9))
    lane.queue.take()
    closed = json.loads(written(settled(lane, called(lane, retried))[1])[-2].value or b"")
    assert closed["offset"] == 4


def test_a_forwarded_and_retried_request_is_known_however_long_the_lane_was_shut() -> None:
    lane = lane_state(position=3)
    older = body("older", workflow_of(0, 1), ttl_s=86_400)
    admit_record(lane, arrival(older, 3), NOW)
    lane.queue.take()  # and is not done when all workers leave
    first_append = [(FORWARDED_HEADER, f"5/17/{int(NOW.timestamp() * 1000)}".encode())]
    forwarded = arrival(body("r-1", OURS), 4, headers=first_append)
    assert admit_record(lane, forwarded, NOW) is None
    lane_request = lane.queue.take()
    assert lane_request
    settled(lane, called(lane, lane_request, TimedOut(1.0)))
    lane.queue.wake(after(9))
    assert lane.queue.take() is lane_request
    decision, _ = settled(lane, called(lane, lane_request))
    assert isinstance(decision, Result)

    reopened = lane_state(position=3, ledger=lane.ledger)
    later = after(25 * 3_600)
    admit_record(reopened, arrival(older, 3), later)
    assert admit_record(reopened, forwarded, later) is not None
    assert reopened.counters.duplicates == 1


def test_misspelt_fields_are_noted_within_bounds_and_break_no_retry() -> None:
    lane = lane_state()
    odd: dict[str, Any] = {f"field-{number}": 1 for number in range(1_000)}
    lane_request = running(lane, **odd)

    assert len(lane_request.notes) == NOTES_MAX
    decision, _ = settled(lane, called(lane, lane_request, TimedOut(1.0)))
    assert isinstance(decision, RetryRequest)
    assert decode(encode(decision).value) == decision


def test_a_history_that_fills_the_request_breaks_no_dead_letter() -> None:
    """It is in the request and in the letter: twice half a MiB is no record."""
    lane = lane_state()
    prior = [{"attempt": 1, "failure": {"kind": "unknown"}, "answer": "x" * 500_000}]
    lane_request = running(lane, prior=prior)

    _, writing = lane.dead_letter(lane_request, UnknownProfile(), NOW)

    assert len(written(writing)[0].value or b"") < REQUEST_BYTES_MAX + 64 * 1024


@pytest.mark.parametrize("is_called", [True, False])
def test_a_dead_letter_that_no_record_can_hold_leaves_out_what_it_can(is_called: bool) -> None:
    lane = lane_state()
    refused = OutRecord(DEAD_LETTERS, 0, b"", b"x" * 15_001, [], about="r-1.dead-letter")
    lane.oversized.add(RecordTooLarge(refused))
    earlier = {
        "attempt": 1,
        "failure": {"kind": "timed_out", "after_s": 1.0},
        "answer": "x" * 9_000,
    }
    lane_request = running(lane, policy={"on_invalid": "dead_letter"}, prior=[earlier])
    lane_request.add_note("n" * 1_000)
    if is_called:
        found, writing = settled(
            lane, called(lane, lane_request, builders.answered("{"), Invalid(problems=()))
        )
    else:
        found, writing = lane.dead_letter(lane_request, UnknownProfile(), NOW)

    assert isinstance(found, DeadLetter)
    assert found.cause.kind == ("invalid_answer" if is_called else "unknown_profile")
    shown = json.loads(written(writing)[0].value or b"")
    assert (shown["prior"], shown["notes"]) == ([], [])
    assert shown["request"]["prior"][0]["answer"] == "x" * 9_000
    assert max(len(record.value or b"") for record in written(writing)) <= 15_000


def test_the_first_terminal_is_progress_and_the_second_no_news() -> None:
    lane = lane_state()
    lane.ledger.lane = LaneRecord(
        partitions=PARTITIONS, openings_without_progress=4, worker="me", at=NOW
    )
    first = settled(lane, called(lane, running(lane, "r-1", 0)))[1]
    second = settled(lane, called(lane, running(lane, "r-2", 1)))[1]

    assert kinds(first)[-2] == "lane"
    assert json.loads(written(first)[-2].value or b"")["openings_without_progress"] == 0
    assert "lane" not in kinds(second)


def test_one_result_of_many_carries_the_account_as_it_was_then() -> None:
    """Writes are committed in order, so that any number of them is consistent."""
    lane = lane_state()
    more: Any = {"policy": {"ordering": "none"}, "budget": {"attempts": 9}}
    lane_requests = [running(lane, f"r-{n}", n, **more) for n in range(3)]
    calls = [
        called(lane, lane_request, builders.answered(), Accepted("x"))
        for lane_request in lane_requests
    ]
    states = []
    for call in calls:
        account = json.loads(written(settled(lane, call)[1])[-1].value or b"")
        states.append((account["spent"]["attempts"], len(account["in_flight"])))

    assert states == [(1, 2), (2, 1), (3, 0)]


def test_the_first_admitted_sets_the_limit_of_its_workflow_whoever_runs_first() -> None:
    lane = lane_state()
    unordered = {"policy": {"ordering": "none"}}
    arrive(lane, body("r-1", OURS, budget={"attempts": 2}), 0)
    arrive(lane, body("r-2", OURS, budget={"attempts": 9}, **unordered), 1)
    lane.queue.take()
    second = lane.queue.take()
    assert second

    called(lane, second)

    assert [account.limit.attempts for account in lane.ledger.accounts.values()] == [2]
