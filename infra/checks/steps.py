"""The checks by name, cheapest first, and the command of each."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from infra.checks.reports import failed

REPORTS = Path(".run/checks")
_PYTEST = (sys.executable, "-m", "pytest")
_ON_TWO = ("--quiet", "--numprocesses=2", "--dist=worksteal")
_ALONE = "not kafka and not real_llm and not long"
_ON_FLOORS = "not services and not wide and not real_llm and not long"
_ON_KAFKA = "kafka and not real_llm and not browser"
_TWO_FILES = ("--quiet", "--numprocesses=2", "--dist=loadfile")
_BY_FILE = ("--quiet", "--numprocesses=3", "--dist=loadfile", "--durations=20")
# A fake of another release may leave a test waiting: its process ends, and the test has failed.
_IN_TIME = ("-o", "faulthandler_timeout=120", "-o", "faulthandler_exit_on_timeout=true")

# Of a step that runs beside others: each writes down at its end which tests failed last.
_OWN_CACHE = ("-o", f"cache_dir={REPORTS / 'cache'}")

# Folders of tests by what they need, so that a step does not import tests of other steps.
WIDE = ("adversarial", "benchmarks", "fuzz", "infra", "mutations", "providers", "simulation")
FLOORS = (  # what users of the client have; the integration tests here need no worker
    "tests/contracts",
    "tests/integration/test_client.py",
    "tests/integration/test_client_broker_away.py",
    "tests/integration/test_subscription.py",
    "tests/integration/test_sync_client.py",
    "tests/integration/test_tool_server_starts.py",
)
WITH_BROKER = ("browser", "chaos", "demo", "e2e", "infra", "integration", "storms")


def _tests(name: str, marks: str, *options: str) -> tuple[str, ...]:
    return (*_PYTEST, "-m", marks, f"--junit-xml={REPORTS / name}.xml", *options)


def _without(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"--ignore=tests/{folder}" for folder in sorted(folders))


_ALL = {*WIDE, *WITH_BROKER, "changes", "contracts", "model_survey", "rules", "unit"}
_NOT_QUICK = _without({*WIDE, *WITH_BROKER} - {"chaos", "demo", "storms"})
_NOT_ON_KAFKA = _without({*WIDE, "changes", "contracts", "rules", "unit"} - {*WITH_BROKER})
_NOT_LONG = _without({*WIDE, "changes", "rules"} - {*WITH_BROKER, "adversarial"})


# Tests that talk to Kafka mostly wait: three files at a time, each with a broker of its own; of
# those that look at pages two. Those that ask the model run alone: it uses both cores.
STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "shape": (sys.executable, "-m", "ruff", "format", "--check"),
        "lint": (sys.executable, "-m", "ruff", "check"),
        "types": (sys.executable, "-m", "mypy", "--num-workers=2"),
        "arch": (str(Path(sys.executable).parent / "lint-imports"),),
        "quick": _tests("quick", "not wide and " + _ALONE, *_NOT_QUICK, *_ON_TWO),
        "cost": (sys.executable, "-m", "tests.fuzz.cost", "--seconds", "15", "--seed", "1"),
        "wide": _tests("wide", "wide and " + _ALONE, *_ON_TWO, *_OWN_CACHE),
        # The same inputs each time: new ones are looked for by `make fuzz`.
        "fuzz": (sys.executable, "-m", "tests.fuzz", "--seconds", "10", "--seed", "1"),
        "floors": (
            *(sys.executable, "-m", "infra.floors"),
            *_tests("floors", _ON_FLOORS, *_ON_TWO, *_IN_TIME, *FLOORS),
        ),
        "integration": _tests(
            "integration", _ON_KAFKA + " and not long", *_NOT_ON_KAFKA, *_BY_FILE
        ),
        "browser": _tests("browser", "browser", *_without(_ALL - {"browser"}), *_TWO_FILES),
        "e2e": _tests("e2e", "real_llm and not long", *_without(_ALL - {"demo", "e2e", "infra"})),
    }
)

# A step that only computes takes what the steps after it leave of the cores: those wait for Kafka.
BESIDE = "wide"

# What `make test` leaves out, since it takes minutes: by name only.
LONG: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "long": _tests("long", "long and not browser", *_NOT_LONG, *_BY_FILE),
        "changes": (sys.executable, "-m", "tests.changes"),
    }
)


def report_of(step: str) -> Path:
    """Where pytest reports the counts of a step; only steps of tests have such a file."""
    return REPORTS / f"{step}.xml"


# Tests of real processes and clocks depend on a machine that others may load: a fault of the code
# fails twice, and each test that needed a second try is named (docs/decisions/0070).
STEPS_TRIED_AGAIN = ("floors", "integration", "browser", "e2e", BESIDE)
TESTS_TRIED_AGAIN_MAX = 2  # more than that is not an accident


def second_report(report: Path) -> Path:
    """Where the second try of a step is reported."""
    return report.with_name(f"{report.stem}-second-try.xml")


def tried_again(name: str, report: Path) -> Sequence[str]:
    """The tests that get a second try; none, if this step or so many failures do not."""
    tests = failed(report)
    if name not in STEPS_TRIED_AGAIN or len(tests) > TESTS_TRIED_AGAIN_MAX:
        return ()
    return tests


def again(command: Sequence[str], report: Path) -> tuple[str, ...]:
    """A step's command for what failed in it, one test after the other."""
    options = [each for each in command if not each.startswith(("--numprocesses", "--dist"))]
    chosen = ("--last-failed", "--last-failed-no-failures=none")
    return (*options, f"--junit-xml={second_report(report)}", *chosen)
