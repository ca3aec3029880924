"""The scripted provider plays what its file says, always the same, and notes each call."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers import scripted_rules
from services.worker.adapters.providers.scripted import ScriptedProvider
from services.worker.adapters.providers.scripted_rules import LatencySpread
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.attempt.turn import Turn
from services.worker.core.schema.resolved import WireSchema
from services.worker.ports.provider import NotReady, Provider, Ready

LIMIT_S = 5.0
START_LIMIT_S = 30.0
ROOT = Path(__file__).parents[2]
WIRE = WireSchema("native", "plan", {})
PROMPT = Prompt("r-1", 2, "be brief", (Turn("user", "npm fails"),), WIRE, max_output_tokens=77)
OK: dict[str, Any] = {"kind": "answered", "content": "ok"}


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


@asynccontextmanager
async def playing(
    folder: Path, rules: Sequence[Any], journal: Path | None = None
) -> AsyncIterator[Provider]:
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": rules}))
    provider = ScriptedProvider(script=script, clock=StoppedClock(), journal=journal)
    assert await provider.preflight() == Ready()
    yield provider
    await provider.close()


async def play(
    folder: Path, *rules: Any, prompt: Prompt = PROMPT, timeout_s: float = LIMIT_S
) -> Reply:
    async with playing(folder, rules) as provider:
        return await provider.ask(prompt, timeout_s=timeout_s)


def facts(stop_reason: str, usage: Usage | None = None) -> CallFacts:
    return CallFacts("scripted", "r-1.2", stop_reason, usage or Usage())


REPLIES: list[tuple[dict[str, Any], Reply]] = [
    (OK, Answered("ok", facts("stop"))),
    ({"kind": "answered", "json": {"ä": [1, None]}}, Answered('{"ä": [1, null]}', facts("stop"))),
    ({"kind": "answered", "json": None}, Answered("null", facts("stop"))),
    (
        {**OK, "usage": {"input_tokens": 9, "output_tokens": 0}},
        Answered("ok", facts("stop", Usage(input_tokens=9, output_tokens=0))),
    ),
    ({"kind": "refused", "reason": "no"}, Refused("no", facts("refused"))),
    (
        {"kind": "refused", "reason": "no", "category": "c"},
        Refused("no", facts("refused"), "c"),
    ),
    ({"kind": "truncated"}, Truncated(77, facts("truncated"))),
    ({"kind": "throttled"}, Throttled(None)),
    ({"kind": "throttled", "retry_after_s": 2}, Throttled(2.0)),
    ({"kind": "unavailable"}, Unavailable(None, ran=True)),
    ({"kind": "unavailable", "status": 500, "ran": False}, Unavailable(500, ran=False)),
    ({"kind": "timed_out"}, TimedOut(LIMIT_S)),
    ({"kind": "rejected", "scope": "profile", "status": 401, "code": "k"},
     Rejected("profile", 401, "k")),
    ({"kind": "rejected", "scope": "request"}, Rejected("request", None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "expected"), REPLIES)
async def test_each_kind_of_reply_is_played(
    reply: dict[str, Any], expected: Reply, tmp_path: Path
) -> None:
    assert await play(tmp_path, {"reply": reply}) == expected


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({}, True),
        ({"request_id": "r-?"}, True),
        ({"request_id": "R-1"}, False),
        ({"contains": "npm"}, True),
        ({"contains": "brief"}, True),
        ({"contains": "yarn"}, False),
        ({"attempt": 2}, True),
        ({"attempt": 1}, False),
        ({"schema_name": "plan"}, True),
        ({"schema_name": "pla"}, False),
        ({"request_id": "r-*", "contains": "npm", "attempt": 2, "schema_name": "plan"}, True),
        ({"request_id": "r-*", "contains": "npm", "attempt": 3, "schema_name": "plan"}, False),
    ],
)
async def test_all_that_is_given_must_fit(when: dict[str, Any], fits: bool, tmp_path: Path) -> None:
    reply = await play(tmp_path, {"when": when, "reply": OK})

    assert reply == (
        Answered("ok", facts("stop")) if fits else Rejected("request", None, "no_rule")
    )


async def test_the_first_rule_that_fits_wins(tmp_path: Path) -> None:
    rules = [
        {"when": {"attempt": 1}, "reply": {"kind": "truncated"}},
        {"when": {"attempt": 2}, "reply": {"kind": "throttled"}},
        {"reply": OK},
    ]

    assert await play(tmp_path, *rules) == Throttled(None)


@pytest.mark.parametrize(
    "rule", [{"reply": {"kind": "hang"}}, {"reply": OK, "latency_s": 60}], ids=["hang", "late"]
)
async def test_what_takes_longer_than_the_timeout_is_timed_out(
    rule: dict[str, Any], tmp_path: Path
) -> None:
    started = asyncio.get_running_loop().time()

    reply = await play(tmp_path, rule, timeout_s=0.1)

    assert reply == TimedOut(0.1)
    assert asyncio.get_running_loop().time() - started >= 0.1


async def test_a_reply_comes_after_its_latency(tmp_path: Path) -> None:
    started = asyncio.get_running_loop().time()

    await play(tmp_path, {"reply": OK, "latency_s": 0.1})

    assert asyncio.get_running_loop().time() - started >= 0.1


def test_latencies_are_spread_as_configured_and_the_same_for_the_same_attempt() -> None:
    spread = LatencySpread(median_s=2.0, sigma=0.5, max_s=4.0, seed=7)
    prompts = [replace(PROMPT, request_id=f"r-{number}") for number in range(2_000)]

    drawn = [spread.seconds(prompt) for prompt in prompts]

    assert drawn == [spread.seconds(prompt) for prompt in prompts]
    assert spread.seconds(PROMPT) != spread.seconds(replace(PROMPT, attempt=3))
    assert spread.seconds(PROMPT) != spread.model_copy(update={"seed": 8}).seconds(PROMPT)
    assert 1.9 < median(drawn) < 2.1
    assert max(drawn) == 4.0
    assert 0.1 < sum(second < 1.2 for second in drawn) / len(drawn) < 0.2


BAD: list[tuple[str, str]] = [
    ("{", "is not a script: expected one JSON document: EOF while parsing an object (byte 0)"),
    ('{"rules":[],"rules":[]}',
     "is not a script: expected unique member names; `rules` is there twice (byte 0)"),
    ("[]", "is not a script: at /: Input should be an object"),
    ("{}", "is not a script: at /rules: Field required"),
    ('{"rules":[{"reply":{"kind":"hang"},"latncy_s":1}]}',
     "is not a script: at /rules/0/latncy_s: Extra inputs are not permitted"),
    ('{"rules":[{"reply":{"kind":"answered"}}]}',
     "is not a script: at /rules/0/reply: either `content` or `json`"),
    ('{"rules":[{"reply":{"kind":"answered","content":"a","json":null}}]}',
     "is not a script: at /rules/0/reply: either `content` or `json`"),
    ('{"rules":[{"reply":{"kind":"truncated"},"latency_s":-1}]}',
     "is not a script: at /rules/0/latency_s: Input should be greater than or equal to 0"),
    ('{"rules":[{"reply":{"kind":"throttled","retry_after_s":"1"}}]}',
     "is not a script: at /rules/0/reply/retry_after_s: Input should be a valid number"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD)
async def test_a_file_that_is_no_script_is_named_with_its_first_problem(
    text: str, problem: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_text(text)
    provider = ScriptedProvider(script=script, clock=StoppedClock())

    assert await provider.preflight() == NotReady(f"{script} {problem}")
    assert await provider.ask(PROMPT, timeout_s=LIMIT_S) == Rejected("profile", None, "no_script")


async def test_a_file_that_is_missing_or_too_large_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted_rules, "SCRIPT_BYTES_MAX", 8)
    missing, large = tmp_path / "missing.json", tmp_path / "large.json"
    large.write_text('{"rules":[]}')

    problems = [
        await ScriptedProvider(script=path, clock=StoppedClock()).preflight()
        for path in (missing, large)
    ]

    assert problems == [
        NotReady(f"{missing} cannot be read: No such file or directory"),
        NotReady(f"{large} has more than 8 bytes"),
    ]


def lines(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text().splitlines()]


async def test_each_call_is_noted_at_its_start_and_at_its_end(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    rules = [{"when": {"attempt": 2}, "reply": {"kind": "timed_out"}}]

    async with playing(tmp_path, rules, journal) as provider:
        await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await provider.ask(replace(PROMPT, attempt=3), timeout_s=LIMIT_S)

    call = {"request_id": "r-1", "at": "2026-11-21T10:00:00.000Z", "pid": os.getpid()}
    assert lines(journal) == [
        {"event": "start", "attempt": 2, **call},
        {"event": "end", "attempt": 2, "reply": "timed_out", **call},
        {"event": "start", "attempt": 3, **call},
        {"event": "end", "attempt": 3, "reply": "rejected", **call},
    ]


async def test_a_cancelled_call_ends_without_a_reply(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with playing(tmp_path, [{"reply": {"kind": "hang"}}], journal) as provider:
        call = asyncio.create_task(provider.ask(PROMPT, timeout_s=LIMIT_S))
        await asyncio.sleep(0)  # it runs until it waits
        assert len(lines(journal)) == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert [(line["event"], line.get("reply", "")) for line in lines(journal)] == [
        ("start", ""),
        ("end", None),
    ]


async def test_no_call_is_made_that_cannot_be_noted(tmp_path: Path) -> None:
    journal = tmp_path / "no such folder" / "journal"
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"reply": OK}]}))
    provider = ScriptedProvider(script=script, clock=StoppedClock(), journal=journal)

    assert await provider.preflight() == NotReady(
        f"the journal {journal} cannot be opened: No such file or directory"
    )
    assert await provider.ask(PROMPT, timeout_s=LIMIT_S) == Rejected("profile", None, "no_journal")


CALLERS = """
import asyncio, sys
from pathlib import Path
from tests.providers.test_scripted import LIMIT_S, PROMPT, StoppedClock
from dataclasses import replace
from services.worker.adapters.providers.scripted import ScriptedProvider

async def main(script, journal, number):
    provider = ScriptedProvider(script=Path(script), clock=StoppedClock(), journal=Path(journal))
    prompts = [replace(PROMPT, request_id=f"{number}-{call}") for call in range(200)]
    await asyncio.gather(*(provider.ask(prompt, timeout_s=60) for prompt in prompts))

asyncio.run(main(*sys.argv[1:]))
"""


def test_the_starts_of_killed_processes_are_all_there_and_none_is_torn(tmp_path: Path) -> None:
    script, journal = tmp_path / "script.json", tmp_path / "journal"
    script.write_text(json.dumps({"rules": [{"reply": {"kind": "hang"}}]}))
    journal.touch()
    callers = [
        subprocess.Popen([sys.executable, "-c", CALLERS, script, journal, str(number)], cwd=ROOT)
        for number in range(2)
    ]
    try:
        until = time.monotonic() + START_LIMIT_S
        while journal.read_bytes().count(b"\n") < 400:
            assert all(caller.poll() is None for caller in callers)
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        for caller in callers:
            caller.kill()
            caller.wait()

    noted = lines(journal)
    assert {line["event"] for line in noted} == {"start"}
    assert {line["pid"] for line in noted} == {caller.pid for caller in callers}
    assert sorted(line["request_id"] for line in noted) == sorted(
        f"{number}-{call}" for number in range(2) for call in range(200)
    )


async def test_no_call_begins_after_its_permit(tmp_path: Path) -> None:
    """As where the process stood still between the lane's last look and the call."""
    journal = tmp_path / "journal.jsonl"
    over = asyncio.get_running_loop().time()
    async with playing(tmp_path, [{"reply": OK}], journal) as provider:
        late = await provider.ask(replace(PROMPT, begins_by=over), timeout_s=LIMIT_S)
        in_time = await provider.ask(replace(PROMPT, begins_by=over + 60), timeout_s=LIMIT_S)

    assert late == Unavailable(None, ran=False)
    assert isinstance(in_time, Answered)
    assert journal.read_text().count('"start"') == 1
