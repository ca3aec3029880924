"""One verdict for each record: admitted, duplicate, misrouted, or a letter about its bytes."""

import json

import pytest

from answerbus.dead_letter import (
    Cause,
    ConflictingId,
    MisroutedTwice,
    RequestTooLarge,
    UndecodableCause,
)
from answerbus.envelope import decode, encode
from answerbus.failure import Problem
from answerbus.limits import JSON_DEPTH_MAX, RECORD_BYTES_MAX, REQUEST_BYTES_MAX
from answerbus.outcome import RetryRequest
from services.digest import canonical_digest
from services.worker.core import events
from services.worker.core.admit import (
    REQUEST_DEPTH_MAX,
    Admission,
    Admitted,
    Arrival,
    Duplicate,
    Misrouted,
    Unfit,
    admit,
)
from services.worker.core.ledger import Ledger, closed_record
from services.worker.lane.letters import forwarded
from tests.unit import builders
from tests.unit.builders import NOW, PARTITIONS, arrival, body, workflow_of

OURS, THEIRS = workflow_of(0), workflow_of(1)


def verdict(
    arrived: Arrival, ledger: Ledger | None = None, pending: dict[str, str] | None = None
) -> Admission:
    return admit(arrived, ledger or Ledger(), pending or {}, PARTITIONS)


def cause(admission: Admission) -> Cause:
    assert isinstance(admission, Unfit)
    return admission.cause


def closing(closes: str, digest: str) -> Ledger:
    ledger = Ledger()
    ledger.close(closed_record(closes, OURS, digest, "result", 3, NOW), OURS)
    return ledger


def test_a_request_for_this_partition_is_admitted_with_the_fields_nobody_knows() -> None:
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
    conflict = Unfit(ConflictingId(), "r-1", OURS)

    assert verdict(arrival(body("r-1", OURS)), closing("r-1", digest)) == conflict
    assert verdict(arrival(body("r-1", OURS)), pending={"r-1": digest}) == conflict


def test_another_partitions_workflow_is_forwarded_once() -> None:
    first = arrival(body("r-1", THEIRS), partition=0)

    assert verdict(first) == Misrouted(owner=1, workflow_id=THEIRS)

    copy = forwarded(first, THEIRS, owner=2)
    again = arrival(copy.value or b"", partition=2, headers=copy.headers)

    assert cause(verdict(again)) == MisroutedTwice()


def test_a_forwarded_copy_is_admitted_where_it_belongs_and_keeps_its_first_place() -> None:
    first = arrival(body("r-1", THEIRS), offset=7, partition=0)
    copy = forwarded(first, THEIRS, owner=1)
    arrived = arrival(copy.value or b"", 99, 1, builders.after(60), copy.headers)

    assert (copy.partition, copy.key) == (1, THEIRS.encode())
    assert isinstance(verdict(arrived), Admitted)
    assert arrived.origin == first.place
    assert arrived.digest == first.digest


def test_forwarding_fits_whatever_headers_a_record_has() -> None:
    """A record that no broker takes would be tried for ever."""
    headers = [("x" * 1000, bytes(1000))] * 500
    first = arrival(body("r-1", THEIRS), headers=headers)

    copy = forwarded(first, THEIRS, owner=1)

    size = len(copy.value or b"") + sum(len(name) + len(content) for name, content in copy.headers)
    assert size < RECORD_BYTES_MAX // 2
    assert isinstance(verdict(arrival(copy.value or b"", 0, 1, NOW, copy.headers)), Admitted)


def test_a_place_that_had_its_letter_is_a_duplicate_even_if_it_cannot_be_read() -> None:
    arrived = arrival(b"nonsense", offset=12)
    ledger = closing(arrived.place_id, arrived.digest)

    assert verdict(arrived, ledger) == Duplicate()
    assert isinstance(verdict(arrival(b"nonsense", offset=13), ledger), Unfit)


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

    assert isinstance(found, Unfit)
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


def test_a_request_that_grows_when_it_is_written_again_is_too_large() -> None:
    """`1e15` is written as `1000000000000000.0`: no retry or letter of it would fit a record."""
    facts = '[{"name":"f","value":[' + ",".join(["1e15"] * 100_000) + "]}]"
    value = json.dumps(body("r-1", OURS)).replace(
        '"context": {', '"context": {"facts":' + facts + ","
    )
    raw = value.encode()
    assert len(raw) < REQUEST_BYTES_MAX

    assert cause(verdict(arrival(raw))) == RequestTooLarge()


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
    retry = events.retry(case, failed, NOW, builders.account(), NOW, counted=True)

    assert isinstance(decode(encode(retry).value), RetryRequest)

    too_deep = verdict(arrival(deep(REQUEST_DEPTH_MAX + 1)))

    problem = Problem.of("", "too_deep", f"at most {REQUEST_DEPTH_MAX} levels of nesting")
    assert REQUEST_DEPTH_MAX + 1 < JSON_DEPTH_MAX
    assert cause(too_deep) == UndecodableCause(problems=(problem,))
