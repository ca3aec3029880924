"""`tools call` ends with the answer of its server, also with one that no worker would take."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from answerbus.client.bus import Bus
from answerbus.tool_result import ToolFailure, ToolOk, ToolResult
from services.tools import calling as module
from services.tools.caller import Reply
from services.tools.calling import call_once
from services.tools.check.cases import Sample

TOKEN = "AAAAAAAAAAAAAAAAAAAAAA=="


class Caller:
    """See services.tools.caller: the server answers with these members, each time it is asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers, self._calls = answers, list[dict[str, Any]]()

    async def publish(self, values: Sequence[bytes]) -> None:
        self._calls += map(json.loads, values)

    async def replies(self) -> Sequence[Reply]:
        (called,) = self._calls
        reply = {"kind": "tool_result", "call_id": called["call_id"], "token": TOKEN}
        reply |= {"workflow_id": called["workflow_id"]}
        key, bodies = called["reply"]["key"].encode(), (reply | one for one in self._answers)
        return [Reply.read(0, key, json.dumps(body).encode()) for body in bodies]


async def called(
    monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any], timeout_s: float = 5
) -> ToolResult | None:
    @asynccontextmanager
    async def calling(*_: Any) -> AsyncIterator[Caller]:
        yield Caller(*answers)

    monkeypatch.setattr(module, "calling", calling)
    return await call_once(
        Bus("nowhere:9092", "answerbus", {}),
        "orders",
        Sample("get", {}),
        name="call-1",
        token=TOKEN,
        timeout_s=timeout_s,
        on_progress=lambda _: None,
    )


@pytest.mark.parametrize("body", [{}, {"workflow_id": None}])
async def test_an_answer_that_cannot_be_read_is_named(
    body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JavaScript leaves out a `value` that is undefined."""
    found = await called(monkeypatch, {"outcome": {"kind": "ok"}, **body})

    assert found is not None
    assert isinstance(found.outcome, ToolFailure)
    assert found.outcome.code == "unreadable"
    assert "a worker drops this answer of the server: /" in found.outcome.message


async def test_what_a_worker_looks_past_does_not_hide_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await called(monkeypatch, {"outcome": {"kind": "ok", "value": 1}, "server": None})

    assert found is not None
    assert found.outcome == ToolOk(value=1)
    assert found.notes == ("left out of a tool's result, since they were wrong: `/server`",)


async def test_the_result_counts_after_progress_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progress = {"kind": "tool_progress", "state": "x" * 20_000}
    found = await called(monkeypatch, progress, {"outcome": {"kind": "ok", "value": 1}})
    assert found is not None
    assert found.outcome == ToolOk(value=1)

    found = await called(monkeypatch, progress, timeout_s=0.01)
    assert found is not None
    assert isinstance(found.outcome, ToolFailure)
    assert "/state: " in found.outcome.message
