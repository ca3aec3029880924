"""`make demo` and `make up` as a user runs them, in a folder of their own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.local_model import MODELS, fetch
from infra.setup_error import SetupError
from infra.stack import Place, Stack, find_stack
from services.settings.profiles import OpenAIProfile
from services.settings.settings import load

ROOT = Path(__file__).parents[2]
DEMO_LIMIT_S = 800.0  # on two idle cores it takes under a minute
STEP_LIMIT_S = 240.0

pytestmark = [pytest.mark.kafka, pytest.mark.real_llm]


@pytest.fixture(autouse=True, scope="module")
def _model() -> None:
    """The model's file, fetched if need be."""
    try:
        fetch(MODELS["small"])
    except SetupError as error:
        if os.getenv("REQUIRE_REAL_LLM"):
            raise
        pytest.skip(f"no local model here: {error}")


def environment() -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "contracts"), os.getenv("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}  # noqa: TID251


def start(module: str, arguments: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def run(module: str, *arguments: str, folder: Path, limit_s: float) -> tuple[int, str]:
    """Its exit code, and all that was said in the folder so far."""
    process = start(module, arguments, folder)
    try:
        code = process.wait(limit_s)
    finally:
        if process.poll() is None:  # it stops what it has started
            process.terminate()
            process.wait(STEP_LIMIT_S)
    return code, (folder / "output").read_text()


def running(stack: Stack) -> list[str]:
    names = [worker.name for worker in stack.workers]
    servers = {"broker": stack.broker, "model": stack.model, "tools": stack.tools}
    return [*(name for name, server in servers.items() if server), *names]


def test_the_demo_keeps_its_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code, output = run("infra.demo", folder=tmp_path, limit_s=DEMO_LIMIT_S)

    assert code == 0, output
    assert "Each request has exactly one terminal event, the duplicate none." in output
    assert re.search(
        r"^\d\d events and \d+ answers validated again, 0 faults$", output, re.MULTILINE
    )
    for text in (
        "refused-by-provider  plan_proposal.v1     refusal by the provider",
        "budget-runs-out      plan_proposal.v1     again: /manifest_path escapes_sandbox",
        "budget-runs-out      plan_proposal.v1     dead letter: budget_exhausted",
        "busy-then-answered   plan_proposal.v1     again in 6 s: throttled",
        "busy-then-answered   plan_proposal.v1     result: override",
        "echo-tool            text, helper         step 1: echo.echo",
        "echo-tool            text, helper         result",
        "undecodable          -                    dead letter: undecodable",
        "hostile-schema       inline remote        dead letter: hostile_schema",
        "unknown-contract     plan_proposal.v9     dead letter: unknown_schema",
    ):
        assert text in output
    assert running(find_stack(Place(tmp_path / ".run" / "demo"))) == []


@pytest.mark.parametrize(
    ("moment", "sign"),
    [
        ("Starting the model", signal.SIGTERM),
        pytest.param("are ready after", signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_an_interrupted_demo_leaves_nothing_behind(
    moment: str, sign: signal.Signals, tmp_path: Path
) -> None:
    demo = start("infra.demo", (), tmp_path)
    deadline = time.monotonic() + STEP_LIMIT_S
    while moment not in (tmp_path / "output").read_text():
        assert demo.poll() is None, (tmp_path / "output").read_text()
        assert time.monotonic() < deadline, (tmp_path / "output").read_text()
        time.sleep(0.05)
    demo.send_signal(sign)

    assert demo.wait(STEP_LIMIT_S) == 130
    assert (tmp_path / "output").read_text().endswith("Interrupted; everything is stopped\n")
    assert running(find_stack(Place(tmp_path / ".run" / "demo"))) == []


def test_the_stack_comes_up_once_and_goes_down_whole(tmp_path: Path) -> None:
    place = Place(tmp_path / ".run")
    up = ("up", "--kafka-port", "0", "--model-port", "0")

    def stack(*arguments: str) -> int:
        return run("infra.stack", *arguments, folder=tmp_path, limit_s=STEP_LIMIT_S)[0]

    try:
        assert stack(*up) == 0, (tmp_path / "output").read_text()
        first = find_stack(place)
        assert stack("status") == 0
        assert running(first) == ["broker", "model", "tools", "worker-1", "worker-2"]
        assert stack(*up) == 0
        again = find_stack(place)
        assert [worker.process.pid for worker in again.workers] == [
            worker.process.pid for worker in first.workers
        ]
        place.config.write_text(f"{place.config.read_text()}# changed\n")
        assert stack(*up) == 0, (tmp_path / "output").read_text()
        anew = find_stack(place)
        assert not {w.process.pid for w in anew.workers} & {w.process.pid for w in again.workers}
        assert anew.tools is not None
        assert again.tools is not None
        assert anew.tools.process.pid == again.tools.process.pid
        again = anew
        settings = load(place.config, {})
        assert settings.kafka.bootstrap_servers == first.bootstrap_servers
        workers = [f"http://127.0.0.1:{worker.port}" for worker in again.workers]
        assert list(settings.console.workers) == workers
        profile = settings.profiles["default"]
        assert isinstance(profile, OpenAIProfile)
        assert profile.base_url == first.model_url
    finally:
        assert stack("down") == 0
    assert running(find_stack(place)) == []
    assert stack("status") == 1
    assert stack("down") == 0
