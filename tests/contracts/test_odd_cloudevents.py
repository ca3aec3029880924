"""CloudEvents as others write them: taken by the body alone, or a dead letter that says why."""

import json
from typing import Any

import pytest

from answerbus.envelope import Headers, ReceivedRequest, Undecodable, decode_request

REQUEST = {
    "kind": "request",
    "request_id": "r-1",
    "workflow_id": "w-1",
    "answer_schema": {"kind": "text"},
    "context": {"instructions": "Say something."},
}
OURS: Headers = [("ce_specversion", b"1.0"), ("ce_type", b"answerbus.request.v1")]
STRUCTURED = {
    "specversion": "1.0",
    "type": "answerbus.request.v1",
    "source": "/shop",
    "id": "e-1",
    "data": REQUEST,
}
LONG = b"x" * 10_240
NOT_LOOKED_AT: list[Headers] = [
    [(name, content)]
    for name in ("ce_id", "ce_source", "ce_time", "ce_subject", "ce_partitionkey", "ce_shopregion")
    for content in (None, b"", b"x", LONG, b"\xff\xfe", b"a\x00b", b"\r\nce_type: x")
]
NOT_LOOKED_AT += [
    [("ce_time", moment)]
    for moment in (
        *(b"2026-11-21T10:00:00+14:00", b"2026-11-21T10:00:60Z", b"2026-02-30T25:00:00Z"),
        *(b"0000-00-00T00:00:00Z", b"10000-01-01T00:00:00Z", b"1763719200", b"yesterday"),
    )
]
NOT_LOOKED_AT += [
    [("content-type", kind)]
    for kind in (
        *(b"application/json; charset=utf-16", b"application/json;charset=\xff", b"", b"text/xml"),
        *(b"application/cloudevents+json; charset=utf-8", b"application/cloudevents-batch+json"),
    )
]
NOT_LOOKED_AT += [
    [("ce_datacontenttype", b"application/avro")],
    [("ce_id", b"1"), ("ce_id", b"2"), ("ce_id", None)],
    [("", b""), ("\ud800", b"x"), ("x" * 10_240, b"x"), ("ce_", b"1")],
    [("CE_TYPE", b"another"), ("ce-type", b"another"), ("Ce_Specversion", b"0.3")],
    [("ce_data", b'{"kind":"request"}'), ("ce_data_base64", b"e30=")],
    [("ce_shopregion", b"x")] * 1_000,
]


@pytest.mark.parametrize("mode", [[], OURS], ids=["bare", "binary"])
@pytest.mark.parametrize("headers", NOT_LOOKED_AT)
def test_other_attributes_are_not_looked_at(mode: Headers, headers: Headers) -> None:
    for whole in ([*mode, *headers], [*headers, *mode]):
        received = decode_request(json.dumps(REQUEST).encode(), whole)

        assert isinstance(received, ReceivedRequest)
        assert received.request.request_id == "r-1"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([("ce_specversion", version), ("ce_type", b"answerbus.request.v1")], "ce_specversion")
        for version in (b"0.3", b"1", b"1.0.0", b"1.0 ", b"\xef\xbb\xbf1.0", b"\xff", b"", LONG)
    ]
    + [
        ([("ce_specversion", b"1.0"), ("ce_type", kind)], "ce_type")
        for kind in (b"answerbus.request.v2", b"ANSWERBUS.REQUEST.V1", b"", b"\xff", LONG)
    ],
)
def test_another_version_or_type_is_said(headers: Headers, code: str) -> None:
    received = decode_request(json.dumps(REQUEST).encode(), headers)

    assert isinstance(received, Undecodable)
    assert [problem.code for problem in received.problems] == [code]
    assert (received.request_id, received.workflow_id) == ("r-1", "w-1")


@pytest.mark.parametrize(
    "event",
    [
        STRUCTURED,
        {**STRUCTURED, "specversion": "0.3"},
        {**STRUCTURED, "specversion": 1.0},
        {**STRUCTURED, "datacontenttype": "application/json; charset=utf-16"},
        {**STRUCTURED, "time": "2026-02-30T25:00:00Z", "shopregion": None},
        {**STRUCTURED, "id": ""},
        {**STRUCTURED, "id": "x" * 10_240},
        {**STRUCTURED, "kind": "request"},
        {**STRUCTURED, "kind": "request", "request_id": "r-1", "workflow_id": "w-1"},
        {"specversion": "1.0", "data_base64": "e30="},
    ],
)
@pytest.mark.parametrize("kind", [None, b"application/cloudevents+json; charset=utf-8"])
def test_structured_mode_is_named(event: dict[str, Any], kind: bytes | None) -> None:
    headers = [("content-type", kind)] if kind else []
    received = decode_request(json.dumps(event).encode(), headers)

    assert isinstance(received, Undecodable)
    assert [problem.code for problem in received.problems] == ["structured_mode"]


def test_a_batch_is_no_request() -> None:
    received = decode_request(json.dumps([STRUCTURED, STRUCTURED]).encode())

    assert isinstance(received, Undecodable)
    assert [problem.code for problem in received.problems] == ["not_an_object"]


def test_a_request_may_have_a_member_that_structured_mode_has() -> None:
    received = decode_request(json.dumps({**REQUEST, "specversion": "1.0"}).encode())

    assert isinstance(received, ReceivedRequest)
    assert received.unknown_fields == ("/specversion",)


@pytest.mark.parametrize("name", ["request_id", "workflow_id"])
@pytest.mark.parametrize("length", [0, 10_240])
def test_ids_of_no_length_and_of_too_much(name: str, length: int) -> None:
    received = decode_request(json.dumps({**REQUEST, name: "x" * length}).encode(), OURS)

    assert isinstance(received, Undecodable)
    assert [problem.path for problem in received.problems] == [f"/{name}"]
    assert getattr(received, name) is None
