"""The command `python -m infra.demo`: start everything, ask, show, check, stop everything."""

import asyncio
import fcntl
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from functools import reduce
from pathlib import Path

from rich.console import Console

from answerbus.client import BusUnavailable
from answerbus.client.bus import Bus
from answerbus.topics import PARTITIONS_DEFAULT, PREFIX_DEFAULT
from infra.demo import closing
from infra.demo.board import Row, fold
from infra.demo.cases import cases
from infra.demo.closing import ANSWERS_LIMIT_S, broken_promises, late_text
from infra.demo.recorder import Recorder
from infra.demo.screen import Screen, screen_for
from infra.demo.traffic import Traffic
from infra.local_model.report import TerminalReport
from infra.server_process import last_lines
from infra.setup_error import SetupError
from infra.stack import Place, Stack, find_stack, start_stack
from services.command_line import PlainConsole

FOLDER = Path(".run/demo")
TAKEN_LIMIT_S = 30.0
REVALIDATION_LIMIT_S = 60.0
OUTPUT_TOKENS = 192
STEPS_MAX = 2  # a small model calls a tool again until it may not
DRAIN_S = 2.0  # what is in flight is not needed
INTERRUPTED = 130  # as shells say it
_HERE = Path(__file__).parent
_PROFILES = "\n".join(
    f'[profiles.{name}]\nprovider = "scripted"\nscript = "{(_HERE / "script.json").as_posix()}"\n'
    for name in ("scripted", "busy")
)


def main(recording: Path | None = None) -> int:
    """Exit code 0 exactly if every request has its one terminal event, and all of it is valid.

    `recording` is an SVG to write, which shows the board as it was over time.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        # So that every way to end stops all processes.
        signal.signal(number, signal.default_int_handler)
    console = PlainConsole()
    began = time.monotonic()
    try:
        with _alone(), _stack(console) as stack:
            ready_s = time.monotonic() - began
            console.print(f"Broker, model and 2 workers are ready after {ready_s:.1f} s\n")
            return _show(stack, console, began, recording)
    except (SetupError, BusUnavailable) as error:
        console.print(str(error), style="red", markup=False)
    except KeyboardInterrupt:
        console.print("Interrupted; everything is stopped")
        return INTERRUPTED
    return 1


@contextmanager
def _alone() -> Iterator[None]:
    """One demo at a time in a checkout, since each begins by removing the data of the last."""
    FOLDER.parent.mkdir(exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError("Another demo runs in this checkout: let it end first.") from None
        yield


@contextmanager
def _stack(console: Console) -> Iterator[Stack]:
    place = Place(
        FOLDER,
        output_tokens=OUTPUT_TOKENS,
        show_schema=False,
        drain_s=DRAIN_S,
        steps_max=STEPS_MAX,
        profiles=_PROFILES,
    )
    find_stack(place).stop()  # what a demo left behind that was killed
    shutil.rmtree(FOLDER, ignore_errors=True)
    try:
        with TerminalReport(console) as report:
            stack = start_stack(place, report.say, report)
        yield stack
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it takes a few seconds and must be finished
        with console.status("Stopping everything"):
            find_stack(place).stop()


def _show(stack: Stack, console: Console, began: float, recording: Path | None) -> int:
    traffic = Traffic(
        Bus(stack.bootstrap_servers, PREFIX_DEFAULT, {}),
        PARTITIONS_DEFAULT,
        f"{PREFIX_DEFAULT}.worker",
    )
    screen = screen_for(console)
    with Recorder(screen, recording) if recording else screen as screen:
        rows, wrong = asyncio.run(_run(traffic, screen))
    revalidated = _revalidate(stack.bootstrap_servers)
    closing.summary(console, rows, wrong, time.monotonic() - began)
    console.print(revalidated.stdout.strip(), markup=False)
    if wrong or revalidated.returncode:
        for worker in stack.workers:
            log = worker.process.log
            console.print(f"\nThe end of {log}:\n{last_lines(log)}", markup=False)
        return 1
    closing.sample(console, rows)
    closing.next_steps(console)
    return 0


async def _run(traffic: Traffic, screen: Screen) -> tuple[list[Row], list[str]]:
    """Publish, show until every request is done, then read everything again; what is wrong."""
    published = await traffic.publish(cases())
    rows = published
    screen.show(rows)
    try:
        async with asyncio.timeout(ANSWERS_LIMIT_S), aclosing(traffic.follow()) as events:
            async for event in events:
                rows = fold(rows, event)
                screen.show(rows)
                if all(row.is_done for row in rows):
                    break
        async with asyncio.timeout(TAKEN_LIMIT_S):
            await traffic.until_taken()
    except TimeoutError:
        late = [row.case.name for row in rows if not row.is_done]
        return rows, [late_text(late)]
    everything = await traffic.everything()
    rows = reduce(fold, everything, published)
    screen.show(rows)
    return rows, broken_promises(rows, everything)


def _revalidate(bootstrap_servers: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(_HERE / "revalidate.py")]
    return subprocess.run(
        [*command, "--bootstrap-servers", bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=REVALIDATION_LIMIT_S,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
