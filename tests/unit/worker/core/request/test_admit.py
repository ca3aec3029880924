"""One verdict for each record: admitted, duplicate, misrouted, or a letter about its bytes."""

import json
from dataclasses import replace

import pytest

from answerbus.dead_letter import (
    Cause,
    ConflictingId,
    DeadlinePassed,
    MisroutedTwice,
    RequestTooLarge,
    UndecodableCause,
    dead_letter_id,
)
from answerbus.envelope import decode, encode
from answerbus.event import key
from answerbus.failure import Problem
from answerbus.json_values import signs_of_values
from answerbus.limits import (
    ENVELOPE_EXTRA_BYTES_MAX,
    FACTS_MAX,
    JSON_DEPTH_MAX,
    MESSAGES_MAX,
    RECORD_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_VALUES_MAX,
)
from answerbus.outcome import RetryRequest
from answerbus.request_key import RequestKey
from services.records.forwarding import FORWARDED_HEADER
from services.text.digest import canonical_digest
from services.worker.core.budget.ledger import Ledger, closed_record
from services.worker.core.outcome import events
from services.worker.core.outcome.decision import Retry
from services.worker.core.request.admit import (
    REQUEST_DEPTH_MAX,
    Admission,
    Admitted,
    Arrival,
    Duplicate,
    Misrouted,
    UnfitRequest,
    admit,
)
from services.worker.lane.state.records import forwarded_record
from tests.unit.worker import builders
from tests.unit.worker.builders import NOW, PARTITIONS, TOPIC, arrival, body, workflow_of

OURS, THEIRS = workflow_of(0), workflow_of(1)


def verdict(
    arrived: Arrival, ledger: Ledger | None = None, pending: dict[str, str] | None = None
) -> Admission:
    held = {RequestKey(OURS, name): body for name, body in (pending or {}).items()}
    return admit(arrived, ledger or Ledger(), held, PARTITIONS)


def cause(admission: Admission) -> Cause:
    assert isinstance(admission, UnfitRequest)
    return admission.cause


def closing(closes: str, digest: str) -> Ledger:
    ledger = Ledger()
    ledger.close(closed_record(closes, OURS, digest, "result", 3, NOW), OURS)
    return ledger


def closing_place(arrived: Arrival) -> Ledger:
    ledger = Ledger()
    entry = closed_record(arrived.place_id, None, arrived.digest, "dead_letter", 12, NOW)
    ledger.close(entry, None)
    return ledger


def test_a_request_for_this_partition_is_admitted_with_its_unknown_fields() -> None:
    value = body("r-1", OURS, budgte={"attempts": 9})

    assert verdict(arrival(value)) == Admitted(builders.request("r-1", OURS), ("/budgte",))


def test_the_same_body_again_is_a_duplicate_however_it_is_spelt() -> None:
    value = body("r-1", OURS)
    ledger = closing("r-1", canonical_digest(value))
    respelt = json.dumps(dict(reversed(value.items())), indent=3).encode()

    assert verdict(arrival(respelt), ledger) == Duplicate()


def test_a_request_that_is_still_worked_on_makes_duplicates_too() -> None:
    value = body("r-1", OURS)

    assert verdict(arrival(value), pending={"r-1": canonical_digest(value)}) == Duplicate()


def test_the_same_id_with_another_body_is_a_conflict() -> None:
    digest = canonical_digest(body("r-1", OURS, ttl_s=5))
    conflict = UnfitRequest(ConflictingId(), "r-1", OURS)

    assert verdict(arrival(body("r-1", OURS)), closing("r-1", digest)) == conflict
    assert verdict(arrival(body("r-1", OURS)), pending={"r-1": digest}) == conflict


def test_another_partitions_workflow_is_forwarded_once() -> None:
    first = arrival(body("r-1", THEIRS), partition=0)

    assert verdict(first) == Misrouted(owner=1, workflow_id=THEIRS)

    copy = forwarded_record(first, THEIRS, owner=2)
    again = arrival(copy.value or b"", partition=2, headers=copy.headers)

    assert cause(verdict(again)) == MisroutedTwice()


def test_a_forwarded_copy_is_admitted_where_it_belongs_and_keeps_its_first_place() -> None:
    first = arrival(body("r-1", THEIRS), offset=7, partition=0)
    copy = forwarded_record(first, THEIRS, owner=1)
    arrived = arrival(copy.value or b"", 99, 1, builders.after(60), copy.headers)

    assert (copy.partition, copy.key) == (1, THEIRS.encode())
    assert isinstance(verdict(arrived), Admitted)
    assert arrived.origin == first.place
    assert arrived.digest == first.digest


def test_forwarding_fits_whatever_headers_a_record_has() -> None:
    """A record that no broker takes would be tried for ever."""
    headers = [("x" * 1000, bytes(1000))] * 500
    first = arrival(body("r-1", THEIRS), headers=headers)

    copy = forwarded_record(first, THEIRS, owner=1)

    size = len(copy.value or b"") + sum(len(name) + len(content) for name, content in copy.headers)
    assert size < RECORD_BYTES_MAX // 2
    assert isinstance(verdict(arrival(copy.value or b"", 0, 1, NOW, copy.headers)), Admitted)


def test_a_place_that_had_its_letter_is_a_duplicate_even_if_it_cannot_be_read() -> None:
    arrived = arrival(b"nonsense", offset=12)
    ledger = closing_place(arrived)

    assert verdict(arrived, ledger) == Duplicate()
    assert isinstance(verdict(arrival(b"nonsense", offset=13), ledger), UnfitRequest)


def test_a_place_that_had_its_letter_hides_no_record_of_a_topic_that_was_created_again() -> None:
    ledger = closing_place(arrival(b"nonsense", offset=12))

    assert isinstance(verdict(arrival(body("r-1", OURS), offset=12), ledger), Admitted)


def test_a_request_id_that_looks_like_a_place_hides_nothing() -> None:
    arrived = arrival(b"nonsense", offset=12)
    ledger = closing(arrived.place_id, canonical_digest(body(arrived.place_id, OURS)))

    assert isinstance(cause(verdict(arrived, ledger)), UndecodableCause)


@pytest.mark.parametrize(
    ("value", "request_id", "workflow_id"),
    [
        (b"", None, None),
        (b"\xff", None, None),
        (b"[" * 100_000, None, None),
        (json.dumps({"request_id": "r-9", "workflow_id": "w"}).encode(), "r-9", "w"),
        (json.dumps(body("r-9", "w", ttl_s=0)).encode(), "r-9", "w"),
    ],
)
def test_what_is_no_request_is_undecodable_with_the_ids_that_could_be_read(
    value: bytes, request_id: str | None, workflow_id: str | None
) -> None:
    found = verdict(arrival(value))

    assert isinstance(found, UnfitRequest)
    assert isinstance(found.cause, UndecodableCause)
    assert (found.request_id, found.workflow_id) == (request_id, workflow_id)


@pytest.mark.parametrize("account", [THEIRS, OURS, f"{OURS}~0123456789ab"])
def test_a_replay_that_names_an_account_of_its_choice_is_no_request(account: str) -> None:
    """It would charge the budget of another, or escape its own."""
    replay = {"dead_letter_id": "x", "round": 1, "account": account, "by": "", "edited": False}

    found = cause(verdict(arrival(body("r-1", OURS, replay=replay))))

    assert isinstance(found, UndecodableCause)
    assert [problem.path for problem in found.problems] == ["/replay/account"]


def test_a_large_record_is_not_even_looked_at() -> None:
    value = body("r-1", OURS)
    value["context"]["instructions"] = "x" * REQUEST_BYTES_MAX

    assert cause(verdict(arrival(value))) == RequestTooLarge()


def test_what_is_left_of_a_record_that_no_client_can_read_is_undecodable_however_large() -> None:
    unreadable = replace(arrival(b"x" * (REQUEST_BYTES_MAX + 1)), readable=False)

    assert isinstance(cause(verdict(unreadable)), UndecodableCause)


def test_no_request_outgrows_the_events_that_carry_it() -> None:
    """`1e15` is written as `1000000000000000.0`, and defaults are added."""
    value = body("r-1", OURS)
    value["context"]["facts"] = [{"name": "f", "value": "@"}] * FACTS_MAX
    value["context"]["messages"] = [{"role": "user", "content": ""}] * MESSAGES_MAX
    value["context"]["instructions"] = "#"
    raw = json.dumps(value, separators=(",", ":"))
    numbers = ",".join(["1e15"] * (REQUEST_VALUES_MAX - signs_of_values(raw.encode()) - 1))
    raw = raw.replace('"@"', f"[{numbers}]", 1)
    raw = raw.replace('"#"', '"' + "x" * (REQUEST_BYTES_MAX - len(raw)) + '"')
    assert REQUEST_BYTES_MAX - 8 < len(raw) <= REQUEST_BYTES_MAX

    found = verdict(arrival(raw.encode()))

    assert isinstance(found, Admitted)
    written = len(found.request.model_dump_json())
    assert written <= RECORD_BYTES_MAX - 2 * ENVELOPE_EXTRA_BYTES_MAX


def test_a_request_of_too_many_values_is_not_read() -> None:
    value = body("r-1", OURS)
    value["context"]["facts"] = [{"name": "f", "value": [0] * REQUEST_VALUES_MAX}]

    found = verdict(arrival(value))

    assert isinstance(found, UnfitRequest)
    assert isinstance(found.cause, UndecodableCause)
    assert [problem.code for problem in found.cause.problems] == ["too_many_values"]
    assert (found.request_id, found.workflow_id) == ("r-1", OURS)


def deep(levels: int) -> bytes:
    """A request that nests so deep in all: object, context, facts and fact are four."""
    value = body("r-1", OURS)
    value["context"]["facts"] = [{"name": "f", "value": builders.nested(levels - 4)}]
    return json.dumps(value).encode()


def test_a_request_nests_no_deeper_than_what_every_event_about_it_can_carry() -> None:
    """A retry that cannot be read back would keep its lane shut for ever."""
    found = verdict(arrival(deep(REQUEST_DEPTH_MAX)))
    assert isinstance(found, Admitted)
    case = builders.case(found.request, prior=(builders.earlier(answer=builders.nested(100)),))
    failed = builders.earlier().failure
    prior, account = case.lane_request.progress.prior, builders.account()
    retry = events.event_of(Retry(prior, failed, 0.0, counted=True), case, account, NOW)

    assert isinstance(decode(encode(retry).value), RetryRequest)

    too_deep = verdict(arrival(deep(REQUEST_DEPTH_MAX + 1)))

    problem = Problem.of("", "too_deep", f"at most {REQUEST_DEPTH_MAX} levels of nesting")
    assert REQUEST_DEPTH_MAX + 1 < JSON_DEPTH_MAX
    assert cause(too_deep) == UndecodableCause(problems=(problem,))


def test_a_request_may_be_called_like_the_place_of_another_record() -> None:
    """Ids and places are two things, also in a ledger of earlier days."""
    rubbish = arrival(b"nonsense", offset=12)
    ledger = closing_place(rubbish)
    named_like_it = body(rubbish.place_id, OURS)

    assert isinstance(verdict(arrival(named_like_it, offset=13), ledger), Admitted)

    digest = canonical_digest(named_like_it)
    ledger.close(closed_record(rubbish.place_id, OURS, digest, "result", 13, NOW), OURS)
    assert verdict(arrival(named_like_it, offset=14), ledger) == Duplicate()
    assert verdict(rubbish, ledger) == Duplicate()
    assert key(closed_record("a", None, digest, "result", 1, NOW)) == "closed:@a"
    assert key(closed_record("a", OURS, digest, "result", 1, NOW)) == f"closed:a@{OURS}"


def test_letters_of_requests_and_of_records_never_have_one_id() -> None:
    place = arrival(b"nonsense", offset=12).place_id
    ids = {
        dead_letter_id(name, TOPIC)
        for name in (place, f"{place}.request", f"{place}.request.request")
    }

    assert len(ids) == 3
    assert f"{place}.dead-letter" not in ids
    assert dead_letter_id("r-1", TOPIC) == "r-1.dead-letter"


def sized(size: int, **more: object) -> bytes:
    value = body("r-1", OURS, **more)
    missing = size - len(json.dumps(value).encode())
    value["context"]["instructions"] += "x" * missing
    return json.dumps(value).encode()


def test_a_request_of_exactly_the_limit_is_admitted_and_one_byte_more_is_not() -> None:
    raw = sized(REQUEST_BYTES_MAX)
    assert len(raw) == REQUEST_BYTES_MAX

    found = verdict(arrival(raw))
    assert isinstance(found, Admitted)
    lane_request, account = builders.case(found.request).lane_request, builders.account()
    written = events.dead_letter_without_call(lane_request, DeadlinePassed(), account, NOW)
    assert len(encode(written).value) < RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX

    assert cause(verdict(arrival(sized(REQUEST_BYTES_MAX + 1)))) == RequestTooLarge()


def placed(header: bytes, *more: bytes, partition: int = 1) -> Arrival:
    headers = [(FORWARDED_HEADER, content) for content in (header, *more)]
    return arrival(body("r-1", THEIRS), 99, partition, NOW, headers)


MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"nonsense",
        b"1/7/%d" % MS,  # the partition it is in
        b"0/7/%d" % (MS + 1),  # later than the copy
        b"0/7/%d" % (MS - 8 * 86_400_000),  # when no record of that day is kept any more
        b"0/7/0",
    ],
)
def test_a_first_place_that_no_worker_can_have_written_is_not_believed(header: bytes) -> None:
    found = placed(header)

    assert found.origin == found.place
    assert isinstance(verdict(found), Admitted)


def test_a_header_that_stands_there_twice_is_not_believed() -> None:
    good = b"0/7/%d" % (MS - 1)
    assert placed(good).origin.offset == 7
    twice = placed(good, good, partition=2)

    assert twice.origin == twice.place
    assert verdict(twice) == Misrouted(owner=1, workflow_id=THEIRS)
    copy = forwarded_record(twice, THEIRS, owner=1)
    assert [content for name, content in copy.headers if name == FORWARDED_HEADER] == [
        b"2/99/%d" % MS
    ]


@pytest.mark.parametrize("ago_ms", [0, 1, 3_600_000, 7 * 86_400_000])
def test_a_first_place_never_makes_a_deadline_later(ago_ms: int) -> None:
    found = placed(b"0/7/%d" % (MS - ago_ms))

    assert found.origin.timestamp <= found.place.timestamp
