"""A lane holds a hundred thousand accounts, each in little memory, and writes them as they were."""

import tracemalloc
from datetime import UTC, datetime

from answerbus.budget import Budget, Spent
from answerbus.private.ledger import LEDGER_RECORD, AccountRecord
from services.worker.core.budget.account import Account, restored

COUNT = 2_000
BYTES_EACH_MAX = 440  # beside its place in the ledger's table
AT = datetime(2026, 1, 1, tzinfo=UTC)


def written(number: int) -> bytes:
    record = AccountRecord(
        account_id=f"workflow-{number:08}",
        workflow_id=f"workflow-{number:08}",
        limit=Budget(attempts=3),
        spent=Spent(attempts=1, tokens=876),
        last_attempt_hash=f"sha256:{number:064x}",
        updated_at=AT,
    )
    return record.model_dump_json().encode()


def read(value: bytes) -> Account:
    record = LEDGER_RECORD.validate_json(value)
    assert isinstance(record, AccountRecord)
    return restored(record)


def test_an_account_takes_little_memory() -> None:
    values = [written(number) for number in range(COUNT)]
    read(values[0])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        accounts = [read(value) for value in values]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(accounts) == COUNT
    assert (after - before) / COUNT <= BYTES_EACH_MAX


def test_an_account_is_written_as_it_was_read() -> None:
    for number in (0, 255, 2**200):
        assert LEDGER_RECORD.validate_json(read(written(number)).json()) == (
            LEDGER_RECORD.validate_json(written(number))
        )
