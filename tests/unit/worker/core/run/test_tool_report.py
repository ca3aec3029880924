"""What a tool has done is not lost because something beside it is wrong."""

import json
from dataclasses import astuple
from typing import Any

import pytest

from answerbus.envelope import Undecodable, decode
from answerbus.reconcile import Happened, ToolReconciled
from answerbus.tool_result import INPUT_REQUIRED, ToolFailure, ToolProgress, ToolResult
from services.worker.core.run.tool_report import InvalidQuestion, read_report

FAILED = {"kind": "error", "code": "not_found"}


def result(**fields: Any) -> dict[str, Any]:
    return {
        "kind": "tool_result",
        "call_id": "r-1.call.1.0",
        "workflow_id": "w-1",
        "token": "MTIzNDU2Nzg5MDEyMzQ1Ng==",
        "outcome": {"kind": "ok", "value": {"state": "shipped"}},
        **fields,
    }


def read(body: dict[str, Any]) -> Any:
    return read_report(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"duration_ms": 12.5}, "`/duration_ms`"),
        ({"duration_ms": -1, "server": None}, "`/duration_ms`, `/server`"),
        ({"notes": "one"}, "`/notes`"),
        ({"notes": [1] * 40}, "`/notes`"),
        ({"notes": [1] * 20, "duration_ms": "x"}, "`/notes`"),
    ],
)
def test_a_result_is_read_without_what_is_wrong_beside_it(wrong: Any, names: str) -> None:
    found = read(result(**wrong))

    assert isinstance(found, ToolResult)
    assert found.outcome == decode(json.dumps(result()).encode()).outcome  # type: ignore[union-attr]
    assert names in found.notes[0]
    assert found.duration_ms is None


@pytest.mark.parametrize(
    "wrong", [{"message": 7}, {"retryable": "maybe"}, {"problems": "x"}, {"problems": [{"p": 1}]}]
)
def test_a_failure_keeps_its_code(wrong: Any) -> None:
    found = read(result(outcome={**FAILED, **wrong}))

    assert isinstance(found, ToolResult)
    assert found.outcome.model_dump(include={"kind", "code"}) == FAILED


@pytest.mark.parametrize("cost", [-5, -0.5, "5", True, [1], {}])
def test_what_happened_is_read_without_a_cost_that_cannot_be(cost: Any) -> None:
    finding = {"kind": "happened", "value": 1, "micro_usd": cost}
    body = {**result(kind="tool_reconciled", server=None), "finding": finding}
    del body["outcome"]

    found = read(body)

    assert isinstance(found, ToolReconciled)
    assert found.finding == Happened(value=1)
    assert found.notes == (
        "left out of a tool's result, since they were wrong: `/finding/micro_usd`, `/server`",
    )


@pytest.mark.parametrize(
    ("cost", "counted"),
    [(10**9 + 1, 10**9), (2 * 10**12, 10**9), (2e12, 10**9), (10**400, 10**9), (0.2, 1), (7.5, 8)],
)
def test_a_cost_that_is_no_whole_number_or_too_high_is_not_free(cost: Any, counted: int) -> None:
    finding = {"kind": "happened", "value": 1, "micro_usd": cost}
    body = {**result(kind="tool_reconciled", server=None), "finding": finding}
    del body["outcome"]

    ended, happened = read(result(micro_usd=cost)), read(body)

    most = "no whole number up to 1,000,000,000 µ$"
    note = f"a tool named a cost that is {most}: it counts as {counted:,} µ$"
    left_out = "left out of a tool's result, since they were wrong: `/server`"
    assert (ended.micro_usd, ended.notes) == (counted, (note,))
    assert happened.finding == Happened(value=1, micro_usd=counted)
    assert happened.notes == (left_out, note)


def test_a_finding_that_is_none_is_not_guessed() -> None:
    for finding in ({"kind": "maybe", "micro_usd": -5}, {"micro_usd": -5}, 7):
        body = {**result(kind="tool_reconciled"), "finding": finding}
        assert isinstance(read(body), Undecodable)


def test_progress_counts_without_its_note() -> None:
    body = {**result(kind="tool_progress", note={"a": 1}, n=-1)}
    del body["outcome"]

    assert isinstance(read(body), ToolProgress)


def question(**fields: Any) -> dict[str, Any]:
    asks = {"question": "Where to?", "json_schema": {"type": "string"}}
    body = {**result(kind="tool_progress", state="s", asks=asks), **fields}
    del body["outcome"]
    return body


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            {"json_schema": {"description": "x" * 5_000}},
            "/asks/json_schema: an object: at most 4,096 bytes",
        ),
        ({"question": "x" * 3_000}, "expected: at most 2048 bytes of UTF-8"),
        ({"to": "x" * 129}, "/asks/to: "),
        ({"expires_s": 0}, "/asks/expires_s: "),
    ],
)
def test_a_question_that_is_not_valid_ends_its_call(wrong: Any, text: str) -> None:
    asks = {**question()["asks"], **wrong}
    found = read(question(asks=asks, note=7))

    assert isinstance(found, InvalidQuestion)
    assert text in found.why
    of = result()
    expected = (of["call_id"], of["workflow_id"], of["token"], "s", found.why)
    assert astuple(found) == expected
    failure = ToolFailure(code=INPUT_REQUIRED, message=found.why)
    assert (found.end().outcome, found.end().token) == (failure, found.token)


def test_a_question_is_ended_by_its_server_alone() -> None:
    too_large = read(question(state="x" * 20_000))
    assert isinstance(too_large, InvalidQuestion)
    assert too_large.state is None
    assert isinstance(read(question()), ToolProgress)
    for body in (question(asks=7, token="short"), question(asks=None, state="x" * 20_000)):
        assert isinstance(read(body), Undecodable)


@pytest.mark.parametrize(
    "body",
    [
        result(token="short", duration_ms=-1),
        result(outcome={"kind": "ok"}),
        result(outcome={"kind": "ok"}, duration_ms=-1),
        result(outcome={"kind": "error", "message": 1}),
        result(outcome=7),
        {"kind": "tool_result"},
        {"kind": "nothing", "duration_ms": -1},
    ],
)
def test_what_must_be_there_is_not_guessed(body: dict[str, Any]) -> None:
    assert isinstance(read(body), Undecodable)


@pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff", b'{"kind": "tool_result",'])
def test_what_is_no_object_is_none(value: bytes | None) -> None:
    assert isinstance(read_report(value), Undecodable)


def test_a_right_result_is_as_it_came() -> None:
    body = result(notes=["slow today"], duration_ms=12, server="s")

    assert read(body) == decode(json.dumps(body).encode())
