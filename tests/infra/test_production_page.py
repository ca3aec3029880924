"""docs/production.md: its figures follow from its formulas, and the doctor finds what it says."""

import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

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
        ("accounts", lambda load: f"{load / 10 * 7 * DAY_S * 0.11e3 / 1e9:.1f} GB"),
        ("closed ids on disk", lambda load: f"{load * DAY_S * 32 * 3 / 1e9:.1f} GB"),
        ("broker cores", lambda load: str(math.ceil(min(load, 26 * partitions(load)) / 350))),
        ("provider's requests a minute", lambda load: f"{load * 60:,}"),
    ],
)
def test_the_table_is_what_its_formulas_give(name: str, formula: Callable[[int], str]) -> None:
    assert row(name) == [formula(load) for load in LOADS]


CHECKLIST = re.findall(r"^- \[ \] (.*)$", PAGE.partition("## Checklist")[2], re.MULTILINE)
NAMES = r"(?:Finding|_copies)\(\s*\"([a-z ]+)\""
IN_BRACKETS = r"\((`[a-z ]+`(?:, `[a-z ]+`)*)\)"


def checks_of(line: str) -> list[str]:
    """The lines of the doctor that a line of the checklist names."""
    return [name for names in re.findall(IN_BRACKETS, line) for name in names[1:-1].split("`, `")]


def test_each_line_of_the_checklist_is_verified_by_the_doctor_or_left_to_people() -> None:
    assert len(CHECKLIST) >= 12
    wrong = [line for line in CHECKLIST if bool(checks_of(line)) is line.endswith("*yours*")]
    assert wrong == []


def test_the_checklist_names_all_that_the_doctor_looks_at_and_nothing_else() -> None:
    modules = (ROOT / "services/commands/doctor").rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in modules)
    found = set(re.findall(NAMES, text))

    assert sorted({name for line in CHECKLIST for name in checks_of(line)}) == sorted(found)


def test_what_is_installed_is_of_this_checkout_and_has_these_extras() -> None:
    (line,) = re.findall(r"^   pip install (.*)$", PAGE, re.MULTILINE)
    installed = re.findall(r"'(\S+)\[(\w+)\]'", line)

    assert installed == [(".", "otlp"), ("./contracts", "client")]
    for place, extra in installed:
        project = tomllib.loads((ROOT / place / "pyproject.toml").read_text(encoding="utf-8"))
        assert extra in project["project"]["optional-dependencies"]


def test_the_image_that_is_built_is_the_one_that_chart_and_plugins_take() -> None:
    chart = ROOT / "infra/helm/answerbus"
    values, about = (
        yaml.safe_load((chart / name).read_text(encoding="utf-8"))
        for name in ("values.yaml", "Chart.yaml")
    )
    image = f"{values['image']['repository']}:{about['appVersion']}"

    assert re.findall(r"--tag (\S+)", PAGE) == [image]
    assert re.findall(r"^FROM (answerbus\S*)", PAGE, re.MULTILINE) == [image]
