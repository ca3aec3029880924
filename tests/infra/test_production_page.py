"""docs/production.md: its figures follow from its formulas, and the doctor finds what it says."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/production.md").read_text(encoding="utf-8")
LOADS = (10, 100, 1_000, 10_000)
DAY_S = 86_400


def row(name: str) -> list[str]:
    (line,) = re.findall(rf"^\| {re.escape(name)}.*$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")][2:]


def workers(load: int) -> int:
    return max(math.ceil(load / 600 * 1.5), 2)


def partitions(load: int) -> int:
    return next(n for n in (12, 24, 48, 96) if n >= max(load / 180, 3 * workers(load)))


def memory_gb(load: int) -> float:
    lanes = math.ceil(partitions(load) / (workers(load) - 1))
    return (300 + 2.1 * load / workers(load) + 32 * lanes) / 1_000


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("calls in flight", lambda load: f"{load * 5:,}"),
        ("workers, a core each", lambda load: str(workers(load))),
        ("memory of a worker", lambda load: f"{memory_gb(load):.1f} GB"),
        ("partitions", lambda load: str(partitions(load))),
        ("closed ids on disk", lambda load: f"{load * DAY_S * 32 * 3 / 1e9:.1f} GB"),
        ("broker cores", lambda load: str(math.ceil(min(load, 26 * partitions(load)) / 350))),
        ("provider's requests a minute", lambda load: f"{load * 60:,}"),
    ],
)
def test_the_table_is_what_its_formulas_give(name: str, formula: Callable[[int], str]) -> None:
    assert row(name) == [formula(load) for load in LOADS]


def test_the_doctor_verifies_what_the_checklist_says() -> None:
    checklist = PAGE.partition("## Checklist")[2]
    doctors = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "services/doctor").rglob("*.py")
    )
    found = set(re.findall(r'Finding\(\s*"([a-z ]+)"', doctors))
    named = re.findall(r"\(`([a-z ]+)`\)", checklist)

    assert len(named) >= 6
    assert set(named) <= found
