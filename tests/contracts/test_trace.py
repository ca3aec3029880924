"""Trace context in headers: what is taken, what is ignored, and that the same names the same."""

import pytest

from answerbus.trace import Trace, new_trace, read_trace, span_id

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()


def test_what_upstream_named_is_read_and_written_back() -> None:
    trace = read_trace([("other", b"x"), ("traceparent", PARENT), ("tracestate", b"shop=1,k=2")])

    assert trace == Trace(TRACE_ID, SPAN_ID, 1, "shop=1,k=2")
    assert trace.headers() == {"traceparent": PARENT.decode(), "tracestate": "shop=1,k=2"}


def test_the_flag_against_spans_is_kept() -> None:
    trace = read_trace([("traceparent", PARENT[:-2] + b"00")])

    assert trace
    assert (trace.is_sampled, trace.child("x").is_sampled) == (False, False)
    assert trace.headers() == {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-00"}


def test_a_later_version_may_say_more() -> None:
    later = b"cc" + PARENT[2:] + b"-what-the-future-holds"

    assert read_trace([("traceparent", later)]) == Trace(TRACE_ID, SPAN_ID)


@pytest.mark.parametrize(
    "parent",
    [
        None,
        b"",
        b"\xff\xfe",
        PARENT.upper(),
        PARENT[:-1],
        PARENT + b"-more",
        b" " + PARENT,
        b"ff" + PARENT[2:],
        f"00-{'0' * 32}-{SPAN_ID}-01".encode(),
        f"00-{TRACE_ID}-{'0' * 16}-01".encode(),
        PARENT * 1_000,
    ],
)
def test_what_is_no_trace_is_ignored(parent: bytes | None) -> None:
    assert read_trace([("traceparent", parent), ("tracestate", b"shop=1")]) is None


def test_two_parents_are_none() -> None:
    assert read_trace([("traceparent", PARENT), ("traceparent", PARENT)]) is None


@pytest.mark.parametrize("state", [b"\xff", b"a=1\r\nx: y", b"a" * 513, None])
def test_a_malformed_state_is_dropped_alone(state: bytes | None) -> None:
    headers = [("traceparent", PARENT), ("tracestate", state)]

    assert read_trace(headers) == Trace(TRACE_ID, SPAN_ID)


def test_several_states_are_one() -> None:
    headers = [("traceparent", PARENT), ("tracestate", b"a=1"), ("tracestate", b"b=2")]

    assert read_trace(headers) == Trace(TRACE_ID, SPAN_ID, state="a=1,b=2")


def test_ids_are_derived_from_names() -> None:
    trace = new_trace("requests/7/4711", "r-1")

    assert trace == new_trace("requests/7/4711", "r-1")
    assert trace.trace_id != new_trace("requests/7/4712", "r-1").trace_id
    assert trace.child("r-1") == trace
    assert trace.child("r-1.attempt.1") == Trace(
        trace.trace_id, span_id(trace.trace_id, "r-1.attempt.1")
    )
    assert trace.child("r-1.attempt.1") != trace.child("r-1.attempt.2")
    assert read_trace([(n, text.encode()) for n, text in trace.headers().items()]) == trace
