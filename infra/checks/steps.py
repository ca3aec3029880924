"""The checks by name, cheapest first: what each of them runs."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

REPORTS = Path(".run/checks")
_PYTEST = (sys.executable, "-m", "pytest")
_ON_TWO = ("--quiet", "--numprocesses=2", "--dist=worksteal")


def _tests(name: str, marks: str, *options: str) -> tuple[str, ...]:
    return (*_PYTEST, "-m", marks, f"--junit-xml={REPORTS / name}.xml", *options)


# Those that talk to Kafka or to the model run one after the other: what they wait for is time,
# and two of them at once on two cores would wait for each other.
STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "shape": (sys.executable, "-m", "ruff", "format", "--check"),
        "lint": (sys.executable, "-m", "ruff", "check"),
        "types": (sys.executable, "-m", "mypy"),
        "arch": (str(Path(sys.executable).parent / "lint-imports"),),
        "quick": _tests("quick", "not wide and not kafka and not real_llm", *_ON_TWO),
        "wide": _tests("wide", "wide and not kafka and not real_llm", *_ON_TWO),
        "fuzz": (sys.executable, "-m", "tests.fuzz", "--seconds", "60"),
        "integration": _tests("integration", "kafka and not real_llm and not browser"),
        "browser": _tests("browser", "browser"),
        "e2e": _tests("e2e", "real_llm"),
    }
)


def report_of(step: str) -> Path:
    """Where pytest tells the counts of a step; only steps that are tests have such a file."""
    return REPORTS / f"{step}.xml"
