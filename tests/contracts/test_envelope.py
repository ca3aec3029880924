"""The codec: any bytes and headers become an event or Undecodable, and events survive the way."""

import json
import re
from codecs import BOM_UTF8
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerbus.account_id import belongs, replay_account, workflow_account
from answerbus.envelope import (
    CLIENT_SOURCE,
    Headers,
    ReceivedRequest,
    Undecodable,
    decode,
    decode_request,
    encode,
)
from answerbus.event import Event, key
from answerbus.failure import Problem
from answerbus.limits import JSON_DEPTH_MAX, PROBLEMS_MAX
from answerbus.outcome import Result
from answerbus.private.ledger import Skipped
from answerbus.request_key import RequestKey
from tests.cost.budget import peak_bytes

EXAMPLES = sorted((Path(__file__).parents[2] / "contracts/examples").rglob("*.json"))
MINIMAL: dict[str, Any] = {
    "kind": "request",
    "request_id": "r-1",
    "workflow_id": "w-1",
    "answer_schema": {"kind": "text"},
    "context": {"instructions": "Say hello."},
}
HALVES = "both halves of a surrogate pair; a text may be cut between them"


def body(**changes: Any) -> bytes:
    return json.dumps({**MINIMAL, **changes}).encode()


def taken(value: bytes | None, headers: Headers = ()) -> ReceivedRequest:
    received = decode_request(value, headers)
    assert isinstance(received, ReceivedRequest), received.problems
    return received


def refused(value: bytes | None, headers: Headers = ()) -> Undecodable:
    received = decode_request(value, headers)
    assert isinstance(received, Undecodable)
    return received


def read(path: Path) -> Event:
    event = decode(path.read_bytes())
    assert not isinstance(event, Undecodable)
    return event


def headers_of(event: Event, **more: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in encode(event, **more).headers}


def example(name: str) -> Event:
    return read(Path(__file__).parents[2] / f"contracts/examples/{name}.json")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_encoded_is_decoded_to_the_same_event(path: Path) -> None:
    event = read(path)
    record = encode(event)

    assert decode(record.value, record.headers) == event


def test_a_result_says_in_headers_what_others_filter_by() -> None:
    assert headers_of(example("result/dep_bump"), trace={"traceparent": "00-ab-cd-01"}) == {
        "ce_specversion": "1.0",
        "ce_id": "0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10.result",
        "ce_source": "/answerbus/worker",
        "ce_type": "answerbus.result.v1",
        "ce_time": "2026-11-21T09:00:02.870Z",
        "ce_subject": "order-4711",
        "ce_partitionkey": "order-4711",
        "ce_requestid": "0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10",
        "ce_contract": "plan_proposal.v1",
        "ce_variant": "dep_bump",
        "ce_dataschema": "urn:answerbus:event:result.v1",
        "content-type": "application/json",
        "traceparent": "00-ab-cd-01",
    }


def test_a_large_event_is_written_once() -> None:
    text = "x" * 400_000
    event = taken(body(context={"instructions": text})).request

    assert peak_bytes(partial(encode, event)) < 1.5 * len(text)


def test_a_request_of_a_client_names_its_source_and_no_time() -> None:
    """Only the broker knows when it came."""
    headers = headers_of(example("request/inline_bare"), source=CLIENT_SOURCE)

    assert headers["ce_source"] == "/answerbus/client"
    assert headers["ce_contract"] == "inline"
    assert "ce_time" not in headers
    assert "ce_variant" not in headers


@pytest.mark.parametrize(
    ("name", "contract", "variant"),
    [
        ("result/inline_wrapped", "inline", None),
        ("result/text", "text", None),
        ("refusal/by_model", "plan_proposal.v1", "refuse"),
        ("refusal/by_provider", "plan_proposal.v1", None),
        ("unvalidated_result/malformed", "inline", None),
        ("retry_request/invalid", "plan_proposal.v1", None),
        ("attempt/result", None, None),
        ("lane/lane", None, None),
    ],
)
def test_contract_and_variant_headers(name: str, contract: str | None, variant: str | None) -> None:
    headers = headers_of(example(name))

    assert headers.get("ce_contract") == contract
    assert headers.get("ce_variant") == variant


def test_a_tag_that_a_header_cannot_carry_is_left_out() -> None:
    result = example("result/text")
    assert isinstance(result, Result)
    tagged = result.model_copy(update={"answer": {"kind": "a\nb"}})

    assert "ce_variant" not in headers_of(tagged)


def test_the_smallest_request_needs_no_headers() -> None:
    received = taken(body())

    assert received.request.model_dump(mode="json", exclude_unset=True) == MINIMAL
    assert received.body == MINIMAL
    assert received.unknown_fields == ()


def test_unknown_fields_are_named_and_kept_in_the_body() -> None:
    received = taken(body(budgte={"attempts": 1}, context={"instructions": "Hi", "fact": []}))

    assert set(received.unknown_fields) == {"/budgte", "/context/fact"}
    assert isinstance(received.body, dict)
    assert received.body["budgte"] == {"attempts": 1}


def test_the_body_wins_over_headers() -> None:
    headers: Headers = [
        ("ce_specversion", b"1.0"),
        ("ce_type", b"answerbus.request.v1"),
        ("ce_id", b"other"),
        ("ce_subject", b"other"),
        ("content-type", b"text/plain"),
    ]

    assert taken(body(), headers).request.workflow_id == "w-1"


@pytest.mark.parametrize(
    "headers",
    [
        [("trace", None)],
        [("trace", b"\xff\xfe"), ("\x00", b"")],
        [("trace", b"1"), ("trace", b"2"), ("trace", None)],
        [("ce_type", b"answerbus.request.v1"), ("ce_type", b"answerbus.result.v1")],
        [("ce_id", b"\xff")],
    ],
    ids=["null", "not UTF-8", "repeated", "first one counts", "id not UTF-8"],
)
def test_strange_headers_are_no_reason_to_refuse(headers: Headers) -> None:
    assert taken(body(), headers).request.request_id == "r-1"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([("ce_type", b"answerbus.result.v1")], "ce_type"),
        ([("ce_type", None)], "ce_type"),
        ([("ce_type", b"\xff")], "ce_type"),
        ([("ce_specversion", b"1.0")], "ce_type"),
        ([("ce_specversion", b"2.0"), ("ce_type", b"answerbus.request.v1")], "ce_specversion"),
        ([("ce_specversion", None), ("ce_type", b"answerbus.request.v1")], "ce_specversion"),
    ],
)
def test_headers_that_claim_another_event_are_a_contradiction(headers: Headers, code: str) -> None:
    found = refused(body(), headers)

    assert [problem.code for problem in found.problems] == [code]
    assert (found.request_id, found.workflow_id) == ("r-1", "w-1")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "null_value"),
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b'{"kind":"request"} trailing', "not_json"),
        (b'{"request_id":"a","request_id":"b"}', "not_json"),
        (b'{"context":{"x":1,"x":1}}', "not_json"),
        (b'{"ttl_s":NaN}', "not_json"),
        (b'{"ttl_s":Infinity}', "not_json"),
        (b'{"ttl_s":1e999}', "not_json"),
        (b'{"ttl_s":' + b"9" * 5_000 + b"}", "not_json"),
        (b'{"text":"\\ud800"}', "not_json"),
        (b'{"a":' * (JSON_DEPTH_MAX + 2) + b"1" + b"}" * (JSON_DEPTH_MAX + 2), "not_json"),
        (b"[" * 10_000, "not_json"),
        (b"[" * 100_000, "too_many_values"),
        (b"[]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b"1", "not_an_object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bytes_that_are_no_object_are_a_value_not_an_exception(
    value: bytes | None, code: str
) -> None:
    assert [problem.code for problem in refused(value).problems] == [code]
    assert [problem.code for problem in refused_event(value).problems] == [code]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (rb'"x":"cut \ud83d"}', f"one JSON document: {HALVES} (byte 72)"),
        (rb'"x":"cut \ude00"}', f"one JSON document: {HALVES} (byte 71)"),
        (b'"x":' + b"[" * 300, "one JSON document: recursion limit exceeded (byte 261)"),
        (b'"ttl_s":1,"ttl_s":1}', "unique member names; `ttl_s` is there twice"),
        (b'"a b":1,"a b":1}', "unique member names"),
        (b'"x":1e400}', "numbers within the range of a double"),
        (b'"x":NaN}', "one JSON document: expected value (byte 61)"),
        (b"}", "one JSON document: trailing comma (byte 57)"),
    ],
)
def test_the_ids_before_a_fault_are_given(rest: bytes, expected: str) -> None:
    """A client waits by them; JavaScript writes half of a pair where a text was cut."""
    ids = b'{"kind":"request","request_id":"r-1","workflow_id":"w-1",'
    for value in (ids + rest, ids + b'"long":"' + b"x" * 5_000 + b'",' + rest):
        found = refused(value)
        assert (found.request_id, found.workflow_id) == ("r-1", "w-1")
    (problem,) = refused(ids + rest).problems
    assert problem.expected == expected


def test_the_ids_of_a_request_that_ends_behind_them_are_given() -> None:
    found = refused(b'{"request_id":"r-1","workflow_id":"w-1"')
    assert (found.request_id, found.workflow_id) == ("r-1", "w-1")
    found = refused(b'{"request_id":"r-1","workflow_id":"w-')
    assert (found.request_id, found.workflow_id) == ("r-1", None)


def test_a_byte_order_mark_is_named() -> None:
    found = refused(BOM_UTF8 + body())
    assert (found.request_id, found.workflow_id) == ("r-1", "w-1")
    assert [it.expected for it in found.problems] == ["one JSON document without a byte order mark"]


def refused_event(value: bytes | None) -> Undecodable:
    event = decode(value)
    assert isinstance(event, Undecodable)
    return event


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"kind": "result"}, "/kind"),
        ({"request_id": ""}, "/request_id"),
        ({"request_id": "a b"}, "/request_id"),
        ({"request_id": "a\n"}, "/request_id"),
        ({"request_id": 7}, "/request_id"),
        ({"workflow_id": "w" * 257}, "/workflow_id"),
        ({"answer_schema": {"kind": "other"}}, "/answer_schema"),
        ({"context": {"instructions": ""}}, "/context/instructions"),
        ({"context": {}}, "/context/instructions"),
        ({"ttl_s": 86_401}, "/ttl_s"),
        ({"ttl_s": "60"}, "/ttl_s"),
        ({"ttl_s": True}, "/ttl_s"),
        ({"ttl_s": 0.5}, "/ttl_s"),
        ({"ttl_s": 0.0}, "/ttl_s"),
        ({"ttl_s": 86_401.0}, "/ttl_s"),
        ({"ttl_s": 60.0, "budget": {"tokens": 0.5}}, "/budget/tokens"),
        ({"budget": {"attempts": -1.0}}, "/budget/attempts"),
        ({"budget": {"attempts": -1}}, "/budget/attempts"),
        ({"budget": None}, "/budget"),
        ({"policy": {"at_last": "shrug"}}, "/policy/at_last"),
        ({"labels": {"a": 1}}, "/labels/a"),
    ],
    ids=str,
)
def test_a_broken_rule_is_named_by_its_place(changes: dict[str, Any], path: str) -> None:
    assert path in [problem.path for problem in refused(body(**changes)).problems]


@pytest.mark.parametrize("cause", ["conflicting_id", "unknown_profile", "undecodable"])
def test_a_dead_letter_says_its_cause_without_being_parsed(cause: str) -> None:
    headers = dict(encode(example(f"dead_letter/{cause}")).headers)

    assert headers["ce_cause"] == cause.encode()


def replay(account: str, dead_letter_id: str = "r-0.dead-letter") -> dict[str, Any]:
    return {
        "dead_letter_id": dead_letter_id,
        "round": 1,
        "account": account,
        "by": "ops@acme",
        "edited": False,
    }


@pytest.mark.parametrize(
    ("request_id", "workflow_id", "is_reserved"),
    [("skipped:", "7", True), ("skipped:", "w-7", False), ("skipped:7", "7", False)],
)
def test_no_request_has_the_record_key_of_an_operator(
    request_id: str, workflow_id: str, *, is_reserved: bool
) -> None:
    digest, at = f"sha256:{'0' * 64}", datetime(2026, 11, 28, tzinfo=UTC)
    skipped = Skipped(offset=7, digest=digest, problem="p", by="ops", reason="r", at=at)
    same_key = RequestKey(workflow_id, request_id).record_key() == key(skipped)
    found = decode_request(body(request_id=request_id, workflow_id=workflow_id))

    assert same_key == isinstance(found, Undecodable) == is_reserved
    if isinstance(found, Undecodable):
        assert [(one.path, one.code) for one in found.problems] == [("/request_id", "reserved")]
        assert (found.request_id, found.workflow_id) == (request_id, workflow_id)


@pytest.mark.parametrize(
    "account",
    ["victim", "w-1", "w-1~", "w-1~9d2f", replay_account("victim", "r-0.dead-letter"),
     replay_account("w-1", "r-1.dead-letter"), replay_account("w-1", "r-0.dead-letter").upper()],
)  # fmt: skip
def test_no_publisher_chooses_the_account_of_a_replay(account: str) -> None:
    found = refused(body(replay=replay(account)))

    assert [(problem.path, problem.code) for problem in found.problems] == [
        ("/replay/account", "foreign_account")
    ]
    assert (found.request_id, found.workflow_id) == ("r-1", "w-1")


def test_the_account_of_workflow_and_dead_letter_is_accepted() -> None:
    account = replay_account("w-1", "r-0.dead-letter")

    assert taken(body(replay=replay(account))).request.account_id == account


@given(st.from_regex(r"[a-f0-9~]{1,4}(~|~[0-9a-f]{12})?(~)?", fullmatch=True))
def test_no_workflow_has_an_account_that_a_replay_or_another_workflow_can_have(one: str) -> None:
    others = {one[:-1], one[:-13], f"{one}~", f"{one}~~", f"{one}~{'0' * 12}"} - {one, ""}
    own = workflow_account(one)

    assert own not in {workflow_account(other) for other in others}
    assert not re.search("~[0-9a-f]{12}$", own)
    assert belongs(own, one)
    assert belongs(replay_account(one, "a letter"), one)
    assert not any(belongs(own, other) for other in others)


def test_problems_do_not_repeat_what_came() -> None:
    """It may be hostile, or secret."""
    found = refused(body(answer_schema={"kind": "s3cret"}, policy={"ordering": "s3cret"}))

    assert "s3cret" not in str(found.problems)


def test_problems_are_bounded() -> None:
    found = refused(body(context={"instructions": "Hi", "facts": [{}] * 500}))

    assert len(found.problems) == PROBLEMS_MAX


def test_ids_are_read_where_they_can_be_and_only_then() -> None:
    readable = refused(body(ttl_s=0))
    unreadable = refused(body(request_id=7, workflow_id="w" * 257))

    assert (readable.request_id, readable.workflow_id) == ("r-1", "w-1")
    assert (unreadable.request_id, unreadable.workflow_id) == (None, None)


def test_readers_ignore_what_is_newer_than_they() -> None:
    event = example("result/dep_bump")
    newer = json.loads(encode(event).value) | {"since_v1_1": [1]}

    assert decode(json.dumps(newer).encode()) == event


def test_events_of_unknown_kind_are_undecodable_and_name_the_known_ones() -> None:
    found = refused_event(json.dumps({**MINIMAL, "kind": "telegram"}).encode())

    assert "'result'" in found.problems[0].expected
    assert "telegram" not in str(found.problems)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*MINIMAL, "a"]) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
headers_of_any_kind = st.lists(
    st.tuples(
        st.sampled_from(["ce_type", "ce_specversion", "x"]), st.none() | st.binary(max_size=4)
    )
)


@given(st.none() | st.binary(max_size=60) | json_values.map(lambda v: json.dumps(v).encode()))
def test_no_bytes_raise(value: bytes | None) -> None:
    assert isinstance(decode(value), Undecodable)


@pytest.mark.wide
@given(st.dictionaries(st.sampled_from(list(MINIMAL)), json_values), headers_of_any_kind)
def test_no_request_and_no_headers_raise(changes: dict[str, Any], headers: Headers) -> None:
    received = decode_request(json.dumps({**MINIMAL, **changes}).encode(), headers)

    match received:
        case ReceivedRequest(request=request):
            assert request.request_id
        case Undecodable(problems=problems):
            assert all(isinstance(problem, Problem) for problem in problems)
            assert problems


def test_a_body_must_say_what_it_is() -> None:
    body = {name: value for name, value in MINIMAL.items() if name != "kind"}

    received = decode_request(json.dumps(body).encode())

    assert isinstance(received, Undecodable)
    assert [problem.path for problem in received.problems] == ["/kind"]


def test_a_structured_cloud_event_is_answered_with_the_expected_form() -> None:
    body = {"specversion": "1.0", "type": "answerbus.request.v1", "id": "1", "data": MINIMAL}

    received = decode_request(json.dumps(body).encode())

    assert isinstance(received, Undecodable)
    assert [problem.code for problem in received.problems] == ["structured_mode"]


def test_an_unknown_field_of_a_schema_is_named_where_it_stands() -> None:
    schema = {"kind": "inline", "name": "a", "json_schema": {}, "wraped": False}

    received = decode_request(body(answer_schema=schema))

    assert isinstance(received, ReceivedRequest)
    assert received.unknown_fields == ("/answer_schema/wraped",)


def test_a_fault_is_placed_right_though_a_member_is_called_as_the_kind() -> None:
    event = decode(b'{"kind":"attempt","attempt":1,"duration_ms":"2"}')

    assert isinstance(event, Undecodable)
    assert {"/duration_ms", "/event_id"} <= {problem.path for problem in event.problems}
    assert "/attempt" not in {problem.path for problem in event.problems}
