"""What budgets of a million tenants cost: `python -m tests.benchmarks.tenants_in_memory [TENANTS]`.

Each tenant has a budget by day, of which one call was charged: a lease in the lane that made it,
and a share at its home, which here are the same lane. All are read back as by a lane that opens,
and a part is used, which takes longer.
"""

import resource
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from answerbus.event import EVENT
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.request_key import RequestKey
from answerbus.topics import LEASES, LEDGER
from services.worker.core.budget.account import Spend
from services.worker.core.shared_budget.books import BudgetBooks, BudgetRecord
from services.worker.core.shared_budget.rules import BudgetRules, PeriodLimits
from services.worker.lane.state.shared_budgets import SharedBudgets

TENANTS = 1_000_000
USED_MAX = 50_000
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
RULES = BudgetRules({"tenant": {"*": PeriodLimits(day=(None, None, 50_000_000))}})
NEED, COST = (1, 3_000, 12_345), (1, 812, 4_321)


def main(tenants: int) -> None:
    """Print bytes a tenant, as it was read back and as it was used."""
    records = _use(_budgets(), 0)
    before, began = _rss_bytes(), time.perf_counter()
    books = BudgetBooks()
    for record in _of_each(tuple(records.values()), tenants):
        books.restore(record)
    _report("read back", tenants, _rss_bytes() - before, time.perf_counter() - began)
    before, began = _rss_bytes(), time.perf_counter()
    budgets, used = _budgets(), min(tenants, USED_MAX)
    for number in range(used):
        _use(budgets, number)
    _report("used", used, _rss_bytes() - before, time.perf_counter() - began)


def _budgets() -> SharedBudgets:
    return SharedBudgets(0, 1, lambda _: None, RULES)


def _use(budgets: SharedBudgets, number: int) -> Mapping[bytes, bytes]:
    """One call of a tenant, and all that its lane and its home say of it; the last records."""
    labels, request = {"tenant": _name(number)}, RequestKey("w", f"r-{number}")
    kept: dict[bytes, bytes] = {}
    budgets.claim(request, labels, NEED, NOW)
    _hear_all(budgets, kept)
    assert budgets.claim(request, labels, NEED, NOW) is None, "the call is charged"
    spend = Spend("w", f"r-{number}", 1, NEED[1], NEED[2], NOW)
    budgets.spend(request, spend)
    budgets.settle(labels, spend, COST, NOW)
    _hear_all(budgets, kept)
    return kept


def _hear_all(budgets: SharedBudgets, kept: dict[bytes, bytes]) -> None:
    while written := budgets.take_unsent():
        for record in written:
            if record.topic is LEDGER:
                kept[record.key or b""] = record.value or b""
            else:
                assert record.topic is LEASES
                budgets.receive(_said(record.value or b""), NOW)


def _of_each(values: Collection[bytes], tenants: int) -> Iterator[BudgetRecord]:
    """The records of tenant 0, of each tenant."""
    name = _name(0).encode()
    for number in range(tenants):
        for value in values:
            yield _said(value.replace(name, _name(number).encode()))


def _said(value: bytes) -> BudgetRecord:
    record = EVENT.validate_json(value)
    assert isinstance(record, BudgetLeaseRecord | BudgetShareRecord)
    return record


def _name(number: int) -> str:
    return f"tenant-{number:07}"


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize()


def _report(how: str, tenants: int, held_bytes: int, took_s: float) -> None:
    each, us = held_bytes / tenants, took_s / tenants * 1e6
    print(f"{tenants:,} {how}: {each:,.0f} bytes each, {held_bytes / 1e9:.2f} GB, {us:.0f} µs")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TENANTS)
