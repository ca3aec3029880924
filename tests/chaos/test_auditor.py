"""The auditor finds each broken promise in a history made by hand: that one, and no other."""

import ast
import json
from pathlib import Path

import pytest

from tests.chaos import auditor
from tests.chaos.audit import canonical
from tests.chaos.audit.history import History, Violation
from tests.chaos.audit.reading import calls_of
from tests.chaos.auditor import audit
from tests.chaos.by_hand import (
    broken_calls,
    broken_events,
    broken_records,
    broken_spends,
    made,
)
from tests.chaos.by_hand.broken import Broken
from tests.chaos.by_hand.story import Story

HISTORIES = (broken_records, broken_spends, broken_calls, broken_events)
BROKEN = [b for told in HISTORIES for b in vars(told).values() if isinstance(b, Broken)]
NEIGHBOUR = "v"  # of two partitions, 0 owns "w" and 1 owns this


def clean() -> Story:
    """Everything that may happen, done right."""
    story = Story(partitions=2)
    first = story.ask("first", budget={"attempts": 9})
    story.fail("first")
    story.refuse(story.put("requests", 0, b"", b"no JSON"), "undecodable")
    story.spend("first", 2)
    story.call("first", 2, "throttled")
    story.settle("first", 2, "released", failure="throttled", counted=False)
    story.spend("first", 3)
    story.call("first", 3, "never")
    story.settle("first", 3, "unknown", failure="unknown", worker="two")
    story.put("requests", 0, b"", first.value)  # a copy, dropped
    story.work("first", 4)
    story.unlist("first")
    story.refuse(story.ask("first", labels={"another": "body"}))
    story.forward(story.ask("strayed", partition=1), 0)
    story.spend("strayed")
    story.settle("strayed", 1, "released", counted=False)
    story.work("strayed", 2)
    story.ask("declined", NEIGHBOUR, 1)
    story.spend("declined")
    story.call("declined", reply="refused", pid=2)
    story.settle("declined", 1, "refusal", worker="two", failure="refused")
    story.end("declined", "refusal")
    story.refuse(story.put("requests", 1, b"", None), "undecodable")
    story.ask("late", NEIGHBOUR, 1, ttl_s=1)
    story.tick(2)
    story.end("late", "dead_letter")
    return story


def test_a_clean_history_keeps_all_promises() -> None:
    assert audit(clean().history()) == []


def test_a_request_behind_a_full_lane_has_its_minute_from_when_it_was_read() -> None:
    story = Story()
    story.ask("first")
    story.ask("behind", "another", ttl_s=1)
    story.work("first")
    story.tick(70)
    story.end("behind", "dead_letter")

    assert audit(story.history()) == []


def test_unordered_requests_may_run_in_any_order() -> None:
    story = Story()
    for id_ in ("one", "two"):
        story.ask(id_, policy={"ordering": "none"})
    story.work("two")
    story.work("one")

    assert audit(story.history()) == []


def test_the_call_of_a_frozen_worker_may_outlive_its_write_off() -> None:
    story = Story()
    story.ask("r")
    story.spend("r")
    story.call("r", pid=2)
    late = story.calls.pop()
    story.settle("r", 1, "unknown", failure="unknown")
    story.work("r", 2)
    story.calls.insert(0, made.lasting(late, 60))

    assert audit(story.history()) == []


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_a_broken_promise_is_found(broken: Broken) -> None:
    story = Story(broken.partitions)

    broken.tell(story)

    violations = audit(story.history())
    assert [(v.promise, v.about) for v in violations] == [(broken.promise, broken.about)]
    assert broken.words in violations[0].text


def test_each_promise_has_been_broken() -> None:
    assert {broken.promise for broken in BROKEN} == {f"G{number}" for number in range(1, 12)}


def test_a_journal_tells_ended_killed_and_cancelled_calls_apart() -> None:
    def line(event: str, id_: str, second: int, **more: object) -> dict[str, object]:
        at = f"2026-11-21T09:00:0{second}.000Z"
        return {"event": event, "request_id": id_, "attempt": 1, "at": at, "pid": 7, **more}

    starts = [line("start", id_, 0) for id_ in ("ended", "killed", "cancelled")]
    ends = [line("end", "ended", 1, reply="answered"), line("end", "cancelled", 2, reply=None)]

    calls = [
        (call.request_id, call.ended and call.ended.second, call.reply)
        for call in calls_of([*starts, *ends])
    ]

    assert calls == [("ended", 1, "answered"), ("killed", None, None), ("cancelled", 2, None)]


def test_what_the_group_has_not_read_is_not_conserved() -> None:
    story = Story()
    story.ask("r")
    story.work("r")
    whole = story.history()

    left = History(whole.prefix, whole.partitions, whole.records, whole.calls, committed={0: 0})

    text = "the group's offset is 0, and there are records up to 0"
    assert audit(left) == [Violation("G1", "requests-0", text)]


def test_a_compacted_ledger_does_not_show_every_spend() -> None:
    story = Story()
    story.ask("r")
    story.work("r")
    whole = story.history()
    compacted = [r for r in whole.records if b'"in_flight": [{' not in (r.value or b"")]
    assert len(compacted) == len(whole.records) - 1

    left = History(
        whole.prefix, 1, compacted, whole.calls, committed=whole.committed, is_whole=False
    )

    assert audit(left) == []


def test_owners_are_those_of_the_java_client() -> None:
    vectors = {"21": -973932308, "foobar": -790332482, "abc": 479470107}
    vectors |= {"a-little-bit-long-string": -985981536}

    found = {key: canonical.owner(key, 2**31) for key in vectors}

    assert found == {key: number & 0x7FFFFFFF for key, number in vectors.items()}


@pytest.mark.parametrize("path", sorted((made.EXAMPLES / "attempt").glob("*.json")), ids=str)
def test_hashes_are_those_of_the_committed_examples(path: Path) -> None:
    attempt = json.loads(path.read_text())

    found = canonical.digest({name: attempt[name] for name in attempt.keys() - {"hash"}})

    assert found == attempt["hash"]


def test_the_auditor_shares_no_code_with_the_product() -> None:
    folder = Path(auditor.__file__).parent
    files = [folder / "auditor.py", *sorted((folder / "audit").glob("*.py"))]
    imported = {name for file in files for name in _imports(file)}

    ours = {name for name in imported if name.split(".")[0] in OURS}

    assert len(files) > 5
    assert {name for name in ours if not name.startswith("tests.chaos.audit")} == set()


OURS = {"answerbus", "services", "infra", "tests"}


def _imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names
