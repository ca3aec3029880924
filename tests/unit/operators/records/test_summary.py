"""The quick look at a record agrees with the codec, and is never an exception."""

import json
import random
from typing import Any

import pytest

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable, decode
from answerbus.event import request_of, workflow_of
from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    REQUESTS,
    RESULTS,
    RETRIES,
    TOPIC_OF_KIND,
    TOPICS,
)
from services.operators.records.decoded import decoded
from services.operators.records.event_parts import (
    TEXT_CHARS_MAX,
    FailureSummary,
    ModelSummary,
    UsageSummary,
)
from services.operators.records.event_summary import (
    AttemptSummary,
    DeadLetterSummary,
    ResultSummary,
)
from services.operators.records.stored import RecordPosition, RetryEnded, Stored
from services.operators.records.summary import UNDECODABLE, RecordSummary, summarize
from tests.unit.operators.stored_examples import EXAMPLES, NOON_MS, body_of, stored

NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in EXAMPLES.rglob("*.json"))


LISTED = [name for name in NAMES if TOPIC_OF_KIND[name.partition("/")[0]] in TOPICS]


@pytest.mark.parametrize("example", LISTED)
def test_it_says_of_every_event_what_the_codec_says(example: str) -> None:
    record = stored(example)

    found, whole = summarize(record), decoded(record)

    event = whole.event
    assert not isinstance(event, Undecodable | RetryEnded)
    assert (found.kind, found.workflow_id) == (event.kind, workflow_of(event))
    assert found.request_id == request_of(event)
    assert found.schema_name == whole.schema_name
    assert (found.place, found.at_ms) == (RecordPosition(whole.topic, 0, 0), NOON_MS)


@pytest.mark.parametrize("example", [name for name in NAMES if name.startswith("dead_letter/")])
def test_it_says_of_a_dead_letter_what_the_codec_says(example: str) -> None:
    record = stored(example)
    found, event = summarize(record).event, decode(record.value)

    assert isinstance(found, DeadLetterSummary)
    assert isinstance(event, DeadLetter)
    assert (found.dead_letter_id, found.round) == (event.dead_letter_id, event.round)
    assert found.at.timestamp() == pytest.approx(event.at.timestamp(), abs=0.001)
    assert found.cause.kind == event.cause.kind
    assert dict(found.labels) == event.labels
    request, account = event.request, event.account
    assert (found.request is None, found.account is None) == (request is None, account is None)
    if found.account and account:
        spent = (found.account.spent.attempts, found.account.spent.tokens)
        assert spent == (account.spent.attempts, account.spent.tokens)
        assert found.account.spent.micro_usd == account.spent.micro_usd
        assert found.account.id == account.id
    if found.request and request:
        limit = found.request.budget
        assert (limit.attempts, limit.tokens) == (request.budget.attempts, request.budget.tokens)
        assert (limit.micro_usd, found.request.profile) == (
            request.budget.micro_usd,
            request.profile,
        )


def test_it_holds_what_is_counted_and_nothing_that_was_said() -> None:
    body = body_of("attempt/retry")

    assert summarize(stored("attempt/retry", partition=3, offset=7)) == RecordSummary(
        RecordPosition(ATTEMPTS, 3, 7),
        NOON_MS,
        AttemptSummary(
            request_id=body["request_id"],
            workflow_id=body["workflow_id"],
            attempt=body["attempt"],
            outcome="retry",
            failure=FailureSummary("invalid"),
            model=ModelSummary("default", body["model"]["model"]),
            usage=UsageSummary(**body["usage"]),
            duration_ms=body["duration_ms"],
            schema_digest=body["schema_digest"],
        ),
    )


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{", b"[]", b"null", b'{"kind":7}', b'{"kind":"x","model":{}}', b"\xff", None),
        b'{"kind":"result"}',
        b'{"kind":"result","request_id":"r","answer":"\xff"}',
        b'{"kind":"result","request_id":"r","answer":"\\ud800"}',
        b'{"kind":"result","request_id":"r","answer":NaN}',
        b'{"kind":"result","request_id":"r","attempt":-1}',
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bytes_that_are_no_event_are_seen_as_that(value: bytes | None) -> None:
    assert summarize(Stored(RESULTS, 0, 0, 0, b"k", value, ())).event is UNDECODABLE


@pytest.mark.parametrize("depth", [50_000, 500_000])
def test_no_depth_is_an_exception(depth: int) -> None:
    """How deep a value may be that is skipped is Python's business: no worker can write either."""
    value = b'{"kind":"result","request_id":"r","answer":' + b"[" * depth + b"]" * depth + b"}"
    assert summarize(Stored(RESULTS, 0, 0, 0, b"k", value, ())).kind in {"result", "undecodable"}


@pytest.mark.parametrize("example", ["result/dep_bump", "dead_letter/unknown_profile"])
def test_no_damage_is_an_exception(example: str) -> None:
    chance = random.Random(7)
    whole = json.dumps(body_of(example)).encode()
    for _ in range(2_000):
        damaged = bytearray(whole[: chance.randrange(len(whole))] or whole)
        for _ in range(chance.randrange(4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)

        summarize(Stored(RESULTS, 0, 0, 0, b"k", bytes(damaged), ()))


def test_what_stands_in_the_topic_of_others_is_no_event() -> None:
    value = json.dumps(body_of("result/dep_bump")).encode()
    found = {
        topic
        for topic in TOPICS
        if summarize(Stored(topic, 0, 0, 0, b"k", value, ())).kind == "result"
    }

    assert found == {RESULTS}


@pytest.mark.parametrize("name", ["request_id", "workflow_id", "profile"])
def test_ids_and_names_that_are_no_such_are_not_kept(name: str) -> None:
    changes: dict[str, Any] = {name: "x" * (TEXT_CHARS_MAX + 1)}
    record = stored("request/minimal", **changes)

    assert summarize(record) == RecordSummary(RecordPosition(REQUESTS, 0, 0), NOON_MS, UNDECODABLE)


def test_the_name_of_a_model_is_cut_since_the_wire_does_not_bound_it() -> None:
    model = {**body_of("result/dep_bump")["model"], "model": "m" * 100_000}

    event = summarize(stored("result/dep_bump", model=model)).event

    assert isinstance(event, ResultSummary)
    assert event.model == ModelSummary(model["profile"], "m" * TEXT_CHARS_MAX)


def test_the_end_of_a_retry_names_its_request() -> None:
    ended = summarize(Stored(RETRIES, 0, 0, 0, b"r-1", None, ()))

    assert (ended.kind, ended.event) == ("retry_ended", RetryEnded("r-1", None))
    assert summarize(Stored(DEAD_LETTERS, 0, 0, 0, b"r-1", None, ())).event is UNDECODABLE
