"""`answerbus watch`: what it leaves out on a terminal is counted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from rich.text import Text

from services.commands import watch
from services.operators.records.record_filter import RecordFilter
from services.operators.records.stored import Stored
from services.settings.settings import KafkaSettings
from tests.unit.operators.stored_examples import NOON_MS, stored


async def test_lines_that_are_left_out_before_the_limit_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = [
        stored("result/dep_bump", NOON_MS, n, request_id=f"r-{n}", workflow_id=f"w-{n}")
        for n in range(5)
    ]

    async def follow() -> AsyncIterator[Sequence[Stored]]:
        yield batch

    @asynccontextmanager
    async def reading(*_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(follow=follow, is_connected=True)

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(watch, "reading", reading)
    await watch._watch(KafkaSettings(), RecordFilter(), from_start=True, limit=4, as_json=False)

    lines = capsys.readouterr().out.splitlines()
    first, last = (Text.from_ansi(line).plain for line in lines)
    assert "r-0" in first
    assert "and 3 more that say the same" in last
    assert last.index("…") == first.index("result"), "behind the time"
