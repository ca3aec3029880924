"""Ledgers of versions that knew no chunks are read, and those versions do not guess at chunks."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from answerbus.envelope import encode
from answerbus.topics import LEDGER, RETRIES
from services.worker.core.budget.closed import ClosedIds
from services.worker.core.budget.ledger import closed_record
from services.worker.lane.opening import RecoveredState
from services.worker.ports import StoredRecord
from tests.unit.worker.builders import NOW

ROOT = Path(__file__).parents[4]
LEDGERS = sorted((ROOT / "tests/cases/ledgers").glob("*.jsonl"))
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
        topic = LEDGER if record["topic"] == "ledger" else RETRIES
        at = datetime.fromisoformat(record["at"])
        key, place = record["key"].encode(), record["offset"]
        headers = tuple((name, text.encode()) for name, text in record["headers"])
        recovered.take(StoredRecord(topic, key, value, headers, place, appended_at=at))
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
            known = ledger.known_place, ledger.known
            for it in closed:
                found = known[it["workflow_id"] is not None](it["closes"])
                assert found is not None
                assert found.has_body(it["body_digest"])
            while ledger.closed.pack(now + timedelta(hours=2)):
                pass  # and then as chunks
        assert ledger.accounts.keys() == accounts.keys()
        for name, account in ledger.accounts.items():
            assert account.spent.model_dump(mode="json") == accounts[name]["spent"]
            assert len(account.in_flight) == len(accounts[name]["in_flight"])
        assert {ticket.request.request_id for ticket in recovered.tickets()} == listed


def test_there_are_old_ledgers_to_be_read() -> None:
    assert len(LEDGERS) >= 2
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
