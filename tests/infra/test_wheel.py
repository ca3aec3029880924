"""What other services install: the contracts with their client, from a wheel and from git."""

import re
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.infra.distributions import CONTRACTS, ROOT, build_wheel, pip, run

USER = """
from pydantic import BaseModel
import answerbus
from answerbus.client import SyncClient
from answerbus.client.testing import FakeClient, answered

class Route(BaseModel):
    team: str

fake = FakeClient()
fake.prepare(answered(Route(team="web")))
with SyncClient(over=fake) as client:
    outcome = client.ask("Who?", workflow_id="w", response_model=Route)
assert outcome.unwrap() == Route(team="web")
assert answerbus.__file__.startswith({place!r}), answerbus.__file__
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    return build_wheel(CONTRACTS, work, dist)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing in it but what the wheel asks for, at our pins."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(place)
    python = place / "bin" / "python"
    pins = ["--constraint", str(ROOT / "constraints.txt"), "--only-binary", ":all:"]
    found = ["--find-links", str(wheel.parent)]
    pip("--python", str(python), "install", *pins, *found, "answerbus[client]")
    return python


def freeze(python: Path) -> set[str]:
    return set(pip("--python", str(python), "freeze").splitlines())


def test_a_wheel_brings_the_client_and_nothing_of_the_services(python: Path) -> None:
    run(str(python), "-I", "-c", USER.format(place=str(python.parents[1])))  # -I: nothing of ours

    there = {re.split("[= ]", line)[0] for line in freeze(python)}
    assert {"answerbus", "aiokafka", "cramjam", "pydantic"} <= there
    assert not {"answerbus-services", "faststream", "typer"} & there
    pip("--python", str(python), "check")


@pytest.mark.long  # it builds the wheel once more
def test_git_brings_the_same(wheel: Path, tmp_path: Path) -> None:
    """The last commit, by the address that users give: `git+URL#subdirectory=contracts`."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    url = f"git+file://localhost{ROOT}#subdirectory=contracts"
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    pip("wheel", *options, f"answerbus[client] @ {url}")

    with ZipFile(tmp_path / wheel.name) as built:
        assert {"answerbus/py.typed", "answerbus/client/client.py"} <= set(built.namelist())
