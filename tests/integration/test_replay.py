"""Dead letters replayed on a real Kafka: each once, also if operators stop, die or repeat."""

import asyncio
import base64
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from services.operators.adapters.writer import Superseded
from tests.integration.bus import Bus, request
from tests.integration.command_line import answerbus, ended, interrupt
from tests.integration.dead_letters import WITH_REQUEST, dead_letters, publish
from tests.integration.replaying import (
    ANSWERING,
    BUDGET,
    MENDING,
    Replay,
    killed_three_times,
    request_ids,
    seen_on_the_wire,
)

pytestmark = pytest.mark.kafka

ROUND = [
    "request",
    "attempt",
    "retry_request",
    "attempt",
    "dead_letter",
    "retry_ended",
    "closed",
]
SOME = 600  # letters; tests/benchmarks/replay_at_scale.py takes 5,000


@pytest.fixture
def replay(bus: Bus) -> Replay:
    return Replay(bus)


async def test_dead_letters_are_grouped_dry_run_replayed_once_and_answered(
    bus: Bus, replay: Replay
) -> None:
    await publish(bus, dead_letters(48))
    bus.start_worker(bus.config(ANSWERING))

    groups = await replay.data("groups", "--by", "cause")
    assert {found["group"]["cause"]: found["count"] for found in groups} == {
        body["cause"]["kind"]: 4 for body in dead_letters(12)
    }
    dry = await replay.data("dry-run", code=1)
    assert dry["sendable"] == 24
    assert {held["code"]: held["count"] for held in dry["held_back"]} == {
        "no_request": 8,
        "schema": 8,
        "unknown_profile": 4,
        "unknown_contract": 4,
    }
    assert await request_ids(bus) == Counter()

    dry = await replay.data("dry-run", *MENDING, "--where", "cause=unknown_profile")
    of_all = {"attempts": 8, "tokens": 80_000, "micro_usd": 1_000_000}  # each up to its budget
    assert (dry["sendable"], dry["worst"], dry["not_estimated"]) == (4, of_all, {})

    done = await replay.data("run", *MENDING, "--yes", code=1)
    assert (done["end"], done["replayed"]) == ("done", 40)
    assert [(held["code"], held["count"]) for held in done["held_back"]] == [("no_request", 8)]
    again = await replay.data("run", *MENDING, "--yes", code=1)
    assert again["replayed"] == 0

    new = Counter({f"r-{n}.replay.1": 1 for n in range(48) if n % 12 < 10})
    assert await request_ids(bus) == new
    results = await bus.terminals(48 + 40)
    answered = [body for body in results if body["kind"] == "result"]
    assert Counter(body["request_id"] for body in answered) == new
    for body in answered:
        assert body["account"]["id"] == body["replay"]["account"]
        assert body["account"]["limit"]["attempts"] == BUDGET
    status = await replay.data("status")
    assert (status["open"], status["replayed"]) == (8, 40)
    assert status["fates"] == {"pending": 0, "answered": 40, "refused": 0, "dead": 0}


async def test_a_run_that_is_killed_three_times_and_repeated_sends_each_request_once(
    bus: Bus, replay: Replay, tmp_path: Path
) -> None:
    figures = await killed_three_times(bus, replay, SOME, tmp_path / "repair")

    assert figures.groups_s < 10


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_ctrl_c_stops_between_transactions_and_the_same_command_goes_on(
    bus: Bus, replay: Replay, number: int, code: int
) -> None:
    await publish(bus, dead_letters(40, WITH_REQUEST))
    command = ("run", *MENDING, "--reason", "the bill was paid", "--yes", "--json")
    process = await replay.begin(*command, "--rate", "5")
    await seen_on_the_wire(bus, process, 5)
    stopped = await interrupt(process, number)
    done = json.loads(stopped.out)

    assert (stopped.code, done["end"]) == (code, "stopped")
    assert 0 < done["replayed"] < 40
    assert sum((await request_ids(bus)).values()) == done["replayed"]
    rest = await replay.data(*command[:-1])
    assert rest["replayed"] == 40 - done["replayed"]
    assert await request_ids(bus) == Counter({f"r-{n}.replay.1": 1 for n in range(40)})
    (dead_letter,) = await replay.data("list", "--status", "replayed", "--limit", "1")
    assert (dead_letter["reason"], dead_letter["fate"]) == ("the bill was paid", "pending")


async def test_of_two_operators_the_one_who_began_later_goes_on(bus: Bus, replay: Replay) -> None:
    await publish(bus, dead_letters(40, WITH_REQUEST))
    command = ("run", *MENDING, "--yes", "--json")
    first = await replay.begin(*command, "--rate", "5")
    await seen_on_the_wire(bus, first, 5)
    second = await replay.data(*command[:-1])
    cut_off = await ended(first)
    done = json.loads(cut_off.out)

    assert (cut_off.code, done["end"]) == (1, "superseded")
    assert cut_off.err.splitlines() == [str(Superseded())]
    assert done["replayed"] + second["replayed"] == 40
    assert await request_ids(bus) == Counter({f"r-{n}.replay.1": 1 for n in range(40)})


async def test_a_dismissed_dead_letter_is_not_replayed_and_says_why(
    bus: Bus, replay: Replay
) -> None:
    await publish(bus, dead_letters(2, WITH_REQUEST))
    one = ("--id", "r-0.dead-letter")
    why = ("--reason", "customer gone", "--by", "ops@acme")

    asked = await replay("dismiss", *one, *why)
    assert (asked.code, "say --yes" in asked.err) == (2, True)
    done = await replay.data("dismiss", *one, *why, "--yes")
    assert done == {"end": "done", "dismissed": 1, "letters": ["r-0.dead-letter"]}
    again = await replay("dismiss", *one, *why, "--yes")
    assert "was dismissed by ops@acme: customer gone" in again.err
    await replay.data("run", *MENDING, "--yes")
    assert await request_ids(bus) == Counter({"r-1.replay.1": 1})
    unknown = await replay("run", "--id", "r-9.dead-letter", "--yes")
    assert (unknown.code, "There is no dead letter r-9.dead-letter." in unknown.err) == (1, True)


async def test_the_whole_story_of_a_dead_letter_is_shown(bus: Bus, replay: Replay) -> None:
    """One that a real worker wrote, after attempts that failed."""
    invalid = {"kind": "answered", "json": {"kind": "dep_bump"}}
    bus.start_worker(bus.config([{"reply": invalid}]))
    await bus.publish([request("r-1", "order-1", budget={"attempts": 2})])
    await bus.terminals(1)
    await replay.data("run", "--yes")
    await bus.terminals(2)
    story = await replay.data("show", "r-1.dead-letter")
    shown = await replay("show", "r-1.dead-letter")

    assert story["letter"]["fate"] == "dead"
    assert story["letter"]["new_letter"] == "r-1.replay.1.dead-letter"
    assert story["letter"]["model"] == "scripted"
    assert story["event"]["request"]["request_id"] == "r-1"
    assert [attempt["attempt"] for attempt in story["attempts"]] == [1, 2]
    problems = story["attempts"][0]["failure"]["problems"]
    assert [entry["kind"] for entry in story["timeline"]] == [*ROUND, "replayed", *ROUND]
    assert shown.code == 0
    for text in ("budget of attempts is spent", problems[0]["path"], "Propose a change."):
        assert text in shown.out


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_export_keeps_repairs_and_writes_no_file_elsewhere(
    bus: Bus, replay: Replay, tmp_path: Path
) -> None:
    one, other = dead_letters(2, ["undecodable"])
    await publish(bus, [one, {**other, "dead_letter_id": "../elsewhere"}])
    folder = tmp_path / "repair"
    name = f"{one['dead_letter_id']}.json"
    before = files(tmp_path)

    (exported,) = await replay.data("export", str(folder))
    assert exported["file"] == str(folder / name)
    written = {name: base64.b64decode(one["raw"]["base64"])}
    assert files(tmp_path) == {**before, **written}
    (folder / name).write_bytes(b"mended")
    await replay.data("export", str(folder))
    assert files(folder) == {name: b"mended"}
    held = await replay.data("import", str(folder / name), "--yes", code=1)
    assert [found["code"] for found in held["held_back"]] == ["invalid"]
    assert await request_ids(bus) == Counter()


async def test_a_dead_letter_becomes_a_failing_test_by_one_command(
    bus: Bus, tmp_path: Path
) -> None:
    (letter,) = dead_letters(1, ("invalid_answer",))
    await publish(bus, [letter])
    test = tmp_path / "test_dead_letter.py"
    files = ("--out", str(tmp_path / "r-0.json"), "--test", str(test))

    done = await answerbus(
        bus.bootstrap, bus.prefix, "record", "--dead-letter", "r-0.dead-letter", *files
    )

    assert done.code == 0, done.err
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout
    assert "No recorded answer to r-0 is valid: attempt 1 " in ran.stdout
