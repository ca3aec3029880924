"""Private records of earlier versions are read; versions without chunks do not guess at chunks."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from answerbus.envelope import encode
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES, RUNS
from services.worker.core.budget.closed import ClosedIds
from services.worker.core.budget.ledger import closed_record
from services.worker.lane.opening import RecoveredState
from services.worker.ports.kafka import StoredRecord
from tests.unit.worker.builders import NOW

ROOT = Path(__file__).parents[4]
LEDGERS = sorted((ROOT / "tests/cases/ledgers").glob("*.jsonl"))
TOPICS = {topic.name: topic for topic in (LEDGER, RETRIES, RUNS)}
OLD = ("a2f2ce1", "e56c6d3")  # versions that knew no chunks, as the history has them
_SAID_BY_OLD = """
import sys
from answerbus.topics import LEDGER
from services.worker.lane import opening
from services.worker.ports import StoredRecord
past = getattr(opening, "RecoveredState", None) or opening.Restored
try:
    past = past()
    past.take(StoredRecord(LEDGER, b"closed_ids:0", sys.stdin.buffer.read()))
    past.check()
except opening.UnreadableState as error:
    print(error)
"""

old_ledgers = pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)


def lanes(path: Path) -> Sequence[list[dict[str, Any]]]:
    """Written by real lanes of that version, in histories of the simulation."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        found.setdefault((record["history"], record["partition"]), []).append(record)
    return list(found.values())


def recovered_from(lane: list[dict[str, Any]]) -> RecoveredState:
    recovered = RecoveredState()
    for record in lane:
        value = None if record["value"] is None else record["value"].encode()
        at = datetime.fromisoformat(record["at"])
        key, place = record["key"].encode(), record["offset"]
        headers = tuple((name, text.encode()) for name, text in record["headers"])
        recovered.take(
            StoredRecord(TOPICS[record["topic"]], key, value, headers, place, appended_at=at)
        )
    recovered.settle()
    return recovered


@old_ledgers
def test_an_old_ledger_says_to_this_version_what_it_said_to_its_own(path: Path) -> None:
    for lane in lanes(path):
        recovered = recovered_from(lane)
        last = {(r["topic"], r["key"]): r["value"] for r in lane}
        texts = [json.loads(v) for (topic, _), v in last.items() if v and topic == "ledger"]
        closed = [text for text in texts if text["kind"] == "closed"]
        accounts = {text["account_id"]: text for text in texts if text["kind"] == "account"}
        listed = {key for (topic, key), value in last.items() if value and topic == "retries"}
        now = datetime.fromisoformat(lane[-1]["at"])

        for _ in range(2):
            ledger = recovered.ledger
            for it in closed:
                workflow = it["workflow_id"]
                found = (
                    ledger.known_place(it["closes"])
                    if workflow is None
                    else ledger.known(RequestKey(workflow, it["closes"]))
                )
                assert found is not None
                assert found.has_body(it["body_digest"])
            while ledger.closed.pack(now + timedelta(hours=2)):
                pass  # and then as chunks
        assert ledger.accounts.keys() == accounts.keys()
        for name, account in ledger.accounts.items():
            assert account.spent.model_dump(mode="json") == accounts[name]["spent"]
            assert len(account.in_flight) == len(accounts[name]["in_flight"])
        begun = {one["request"]["request_id"] for one in (*of(last, "run"), *of(last, "run_child"))}
        lane_requests = {lane_request.request.request_id for lane_request in recovered.requests()}
        assert lane_requests == listed | begun


@old_ledgers
def test_old_runs_go_on_where_their_own_version_left_them(path: Path) -> None:
    for lane in lanes(path):
        last = {(r["topic"], r["key"]): r["value"] for r in lane}
        runs = {
            lane_request.request.request_id: lane_request.run
            for lane_request in recovered_from(lane).requests()
        }
        steps, calls = of(last, "run_step"), of(last, "run_call")

        for head in of(last, "run"):
            name = head["request"]["request_id"]
            run = runs[name]
            assert run is not None
            assert keeps(run.definition, head["definition"])
            mine = sorted((one for one in steps if one["request_id"] == name), key=itemgetter("n"))
            assert all(keeps(*pair) for pair in zip(run.steps, mine, strict=True))
            made = {(call.n, call.place): call for call in run.calls.values()}
            noted = {(one["n"], one["place"]): one for one in calls if one["request_id"] == name}
            assert made.keys() == noted.keys()
            assert all(keeps(made[place], noted[place]) for place in noted)


def keeps(record: BaseModel, written: dict[str, Any]) -> bool:
    """Whether all that was written is there; a later version may know more."""
    read = record.model_dump(mode="json")
    return {**read, **written} == read


def of(last: dict[tuple[str, str], str | None], kind: str) -> list[dict[str, Any]]:
    """The last records of a kind, as JSON."""
    found = [json.loads(value) for value in last.values() if value]
    return [record for record in found if record["kind"] == kind]


def test_there_are_old_ledgers_to_be_read() -> None:
    assert len(LEDGERS) >= 3
    records = [record for path in LEDGERS for lane in lanes(path) for record in lane]
    kinds = {json.loads(record["value"])["kind"] for record in records if record["value"]}
    assert kinds >= {"run", "run_step", "run_call", "run_child", "run_cancel"}
    assert all(len(lane) > 3 for path in LEDGERS for lane in lanes(path))


@pytest.mark.wide
@pytest.mark.parametrize("old", OLD)
def test_a_version_that_knows_no_chunks_stays_shut_and_says_why(tmp_path: Path, old: str) -> None:
    packed = subprocess.run(["git", "archive", old], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"the history up to {old} is not here")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(tmp_path, filter="data")
    ids = ClosedIds()
    ids.add(closed_record("r-1", "w-1", "sha256:" + "0" * 64, "result", 3, NOW))
    (_, chunk), *_ = ids.pack(NOW + timedelta(hours=2))
    assert chunk is not None
    inherited = dict(os.environ)  # noqa: TID251 - where Python finds its libraries
    done = subprocess.run(
        [sys.executable, "-c", _SAID_BY_OLD],
        cwd=tmp_path,
        env={**inherited, "PYTHONPATH": f"{tmp_path}:{tmp_path / 'contracts'}"},
        input=encode(chunk).value,
        capture_output=True,
        check=True,
    )

    assert done.stdout.startswith(b"ledger")
    assert b"closed_ids" in done.stdout
