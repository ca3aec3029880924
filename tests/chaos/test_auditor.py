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
from tests.chaos.by_hand.history_builder import HistoryBuilder

pytestmark = pytest.mark.wide

HISTORIES = (broken_records, broken_spends, broken_calls, broken_events)
BROKEN = [b for told in HISTORIES for b in vars(told).values() if isinstance(b, Broken)]
NEIGHBOUR = "v"  # of two partitions, 0 owns "w" and 1 owns this


def clean() -> HistoryBuilder:
    """Everything that may happen, done right."""
    builder = HistoryBuilder(partitions=2)
    first = builder.ask("first", budget={"attempts": 9})
    builder.fail("first")
    builder.refuse(builder.put("requests", 0, b"", b"no JSON"), "undecodable")
    builder.spend("first", 2)
    builder.call("first", 2, "throttled")
    builder.settle("first", 2, "released", failure="throttled", counted=False)
    builder.spend("first", 3)
    builder.call("first", 3, "never")
    builder.settle("first", 3, "unknown", failure="unknown", worker="two")
    builder.put("requests", 0, b"", first.value)  # a copy, dropped
    builder.work("first", 4)
    builder.unlist("first")
    builder.refuse(builder.ask("first", labels={"another": "body"}))
    builder.forward(builder.ask("strayed", partition=1), 0)
    builder.spend("strayed")
    builder.settle("strayed", 1, "released", counted=False)
    builder.work("strayed", 2)
    builder.ask("declined", NEIGHBOUR, 1)
    builder.spend("declined")
    builder.call("declined", reply="refused", pid=2)
    builder.settle("declined", 1, "refusal", worker="two", failure="refused")
    builder.end("declined", "refusal")
    builder.refuse(builder.put("requests", 1, b"", None), "undecodable")
    builder.ask("late", NEIGHBOUR, 1, ttl_s=1)
    builder.tick(2)
    builder.end("late", "dead_letter")
    return builder


def test_a_clean_history_keeps_all_promises() -> None:
    assert audit(clean().history()) == []


def test_a_request_behind_a_full_lane_has_its_minute_from_when_it_was_read() -> None:
    builder = HistoryBuilder()
    builder.ask("first")
    builder.ask("behind", "another", ttl_s=1)
    builder.work("first")
    builder.tick(70)
    builder.end("behind", "dead_letter")

    assert audit(builder.history()) == []


def test_unordered_requests_may_run_in_any_order() -> None:
    builder = HistoryBuilder()
    for id_ in ("one", "two"):
        builder.ask(id_, policy={"ordering": "none"})
    builder.work("two")
    builder.work("one")

    assert audit(builder.history()) == []


def test_the_call_of_a_frozen_worker_may_end_after_it_was_settled_as_unknown() -> None:
    builder = HistoryBuilder()
    builder.ask("r")
    builder.spend("r")
    builder.call("r", pid=2)
    late = builder.calls.pop()
    builder.settle("r", 1, "unknown", failure="unknown")
    builder.work("r", 2)
    builder.calls.insert(0, made.lasting(late, 60))

    assert audit(builder.history()) == []


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_a_broken_promise_is_found(broken: Broken) -> None:
    builder = HistoryBuilder(broken.partitions)

    broken.tell(builder)

    violations = audit(builder.history())
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
    builder = HistoryBuilder()
    builder.ask("r")
    builder.work("r")
    whole = builder.history()

    left = History(whole.prefix, whole.partitions, whole.records, whole.calls, committed={0: 0})

    text = "the group's offset is 0, and there are records up to 0"
    assert audit(left) == [Violation("G1", "requests-0", text)]


def test_a_compacted_ledger_does_not_show_every_spend() -> None:
    builder = HistoryBuilder()
    builder.ask("r")
    builder.work("r")
    whole = builder.history()
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
