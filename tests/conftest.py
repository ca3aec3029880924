"""What holds for all tests."""

import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

from infra.checks.steps import WIDE
from tests.plugins.installing import install_tickets

_HERE = Path(__file__).parent
_OF_TERMINALS = {"COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "TERM", "TERMINAL_WIDTH"}
_AS_TERMINALS = {"FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}

# Where it is there (with the tool that lists what the image has), jsonschema builds a parser of
# IRIs for a second in each process. No test asks for that format.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def pytest_configure() -> None:
    """A shell that starts us in the background lets us, and all our children, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A machine that is busy with other things must not fail a test: speed is measured elsewhere.
    hypothesis.settings.register_profile("answerbus", deadline=None)
    hypothesis.settings.load_profile("answerbus")
    # Thousands of tests stay until the end: they are not searched for garbage, now or later.
    gc.disable()
    _leave_out_what_users_set()


def _leave_out_what_users_set() -> None:
    """Settings and the kind of a terminal, and proxies on the way to servers of the tests."""
    environment = os.environ  # noqa: TID251 - of the tests themselves
    for name in [*environment]:
        if name in _OF_TERMINALS | _AS_TERMINALS or name.startswith("ANSWERBUS_"):
            del environment[name]
    for name in ("no_proxy", "NO_PROXY"):
        environment[name] = ",".join(filter(None, [environment.get(name), "127.0.0.1"]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Much data, many faults, or SDKs over HTTP: `make test-quick` leaves these folders out.

    It leaves out single modules as well, which mark themselves as wide.
    """
    for item in items:
        if item.path.relative_to(_HERE).parts[0] in WIDE:
            item.add_marker("wide")


def pytest_collection_finish() -> None:
    """All that is there from now on is left out of each search for garbage."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup() -> None:
    """SIGTERM ends a run as Ctrl-C does: fixtures stop the brokers and workers that they started.

    A worker within a test leaves asyncio's default behind, which ends us at once.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Objects of earlier modules are left out of the later searches for garbage."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def tickets_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip has installed the example of a plugin; on no path yet."""
    return install_tickets(tmp_path_factory.mktemp("tickets"))
