"""A worker under load for long: what it holds must not grow.

    python -m tests.benchmarks.soak --minutes 30

Requests of all kinds come at an even rate: answers, retries that use their budget up, a provider
that refuses for a moment, copies, records that are none. One worker lasts; a second one comes,
is killed or stopped, and comes again. Every few seconds memory, open files and tasks of the first
are noted, and the bytes of the ledger. Closed ids and accounts are remembered for ten minutes
instead of a day and a week, and Kafka compacts segments of two minutes instead of an hour: so
memory and ledger are full long before the middle third, and what grows from there on grows without
end.
Exit codes: 0 all of it is flat, 1 something grows.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from answerbus.topics import LEDGER, TOPICS, Topic
from tests.benchmarks import usage
from tests.benchmarks.arithmetic import percentile
from tests.benchmarks.charts import chart
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Contestant, Field, Rig
from tests.benchmarks.upstream import request_body
from tests.integration.bus import Worker

PER_S = 30.0
WORKFLOWS = 500
KINDS = 40  # of requests, in turn
CUT = 19  # the kind that ends in the middle
ATTEMPTS = 3  # of a request whose answers do not fit
IN_FLIGHT = 100
LOOK_EVERY_S = 5.0
RESTART_EVERY_S = 90.0
REFUSE_EVERY_S = 60.0
REFUSED_S = 3.0
REMEMBER_S = 600.0  # closed ids and accounts; a day and a week by default
SEGMENT_S = 120.0  # of the ledger; an hour by default
QUIET = 0.25  # of all moments
GROWTH_MAX = 0.10  # from the middle third to the last, at such a moment
OUT = Path(__file__).parents[2] / "docs/soak"
SETTINGS = f"[ids]\nremember_s = {REMEMBER_S}\n[accounts]\nremember_s = {REMEMBER_S}\n"
UNITS = {"memory": "MiB", "open files": "", "tasks": "", "ledger": "KiB"}

app = typer.Typer(add_completion=False)


@dataclass
class Watch:
    """What was seen, by time."""

    began: float = field(default_factory=time.monotonic)
    seen: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: {name: [] for name in UNITS}
    )

    def note(self, found: Mapping[str, float]) -> None:
        at = time.monotonic() - self.began
        for name, value in found.items():
            self.seen[name].append((at, value))

    def grown(self) -> dict[str, float]:
        """By which share the last third is above the middle one.

        At the lower quartile: what leaks is there at quiet moments too, and what comes with the
        load of a moment is not.
        """
        found = {}
        for name, points in self.seen.items():
            third = len(points) // 3
            before = percentile((value for _, value in points[third : 2 * third]), QUIET)
            after = percentile((value for _, value in points[2 * third :]), QUIET)
            found[name] = after / before - 1 if before else 0.0
        return found


def published(name: str) -> Iterator[tuple[str, bytes]]:
    """Workflows and requests of all kinds, and records that are none."""
    for n in count():
        workflow_id = f"{name}-w{n % WORKFLOWS}"
        body = request_body(f"{name}-{n}", workflow_id)
        match n % KINDS:
            case 7 | 27:  # the stub's answer is no answer to that: retried, then a dead letter
                workflow_id = body["workflow_id"] = f"{name}-r{n}"
                body["budget"] = {"attempts": ATTEMPTS}
                body["answer_schema"] = {"kind": "contract", "name": "agent_action", "version": 1}
            case 13:
                body["answer_schema"] = {"kind": "contract", "name": "nobody_has_it", "version": 1}
            case 31:
                body = request_body(f"{name}-{n - 5}", f"{name}-w{(n - 5) % WORKFLOWS}")
                workflow_id = body["workflow_id"]
            case _:
                pass
        value = json.dumps(body).encode()
        yield workflow_id, value[: len(value) // 2] if n % KINDS == CUT else value


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60.0)


def publishing(fields: Field) -> Callable[[threading.Event], None]:
    def publish(over: threading.Event) -> None:
        began = time.monotonic()
        for n, (workflow_id, value) in enumerate(published(fields.bus.prefix)):
            if over.wait(max(0.0, began + n / PER_S - time.monotonic())):
                return
            fields.upstream.send(workflow_id, f"{n}", value)

    return publish


def disturbing(rig: Rig, fields: Field) -> Callable[[threading.Event], None]:
    """A guest that is killed and stopped in turn, and a provider that refuses now and then."""

    def kill_and_join(over: threading.Event) -> None:
        refuse_at = restart_at = 0.0
        guest: Contestant | None = None
        for turn in count():
            now = time.monotonic()
            if now >= refuse_at:
                rig.stub.tell(do="throttle", for_s=REFUSED_S, retry_after_s=1)
                refuse_at = now + REFUSE_EVERY_S
            if now >= restart_at:
                if guest:
                    (guest.kill if turn % 2 else guest.stop)()
                guest = fields.product(IN_FLIGHT, agents=SETTINGS)
                restart_at = now + RESTART_EVERY_S
            if over.wait(1.0):
                return

    return kill_and_join


def look(rig: Rig, fields: Field, first: Contestant) -> dict[str, float]:
    """At the worker that lasts, and at the ledger."""
    process = first.processes[0]
    assert process.child is not None
    metrics = Worker(process.child, process.log).get("/metrics").decode()
    tasks = next(line for line in metrics.splitlines() if line.startswith("answerbus_event_loop_t"))
    folders = (rig.folder / "kafka" / "log").glob(f"{LEDGER.full_name(fields.bus.prefix)}-*")
    segments = [segment.stat().st_size for folder in folders for segment in folder.glob("*.log")]
    return {
        "memory": usage.of_session(process.pid).rss_mib,
        "open files": float(len(list(Path(f"/proc/{process.pid}/fd").iterdir()))),
        "tasks": float(tasks.split()[-1]),
        "ledger": sum(segments) / 1024,
    }


@app.command()
def main(
    *,
    minutes: Annotated[float, typer.Option(help="how long")] = 30.0,
    out: Annotated[Path, typer.Option(help="the folder for the figure")] = OUT,
) -> None:
    """Load it, look at it, and say what has grown."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    watch = Watch()
    with TemporaryDirectory(prefix="soak-") as folder, Rig(Path(folder), 1, console) as rig:
        fields = rig.field(
            topics=[quick_ledger() if topic is LEDGER else topic for topic in TOPICS]
        )
        rig.begin(Latency("log-normal"))
        first = fields.product(IN_FLIGHT, agents=SETTINGS)
        with in_background(publishing(fields)), in_background(disturbing(rig, fields)):
            while time.monotonic() < watch.began + 60 * minutes:
                first.check()
                watch.note(look(rig, fields, first))
                time.sleep(LOOK_EVERY_S)
        answered = rig.stub.stats()["answered"]
    grown = watch.grown()
    write(out, watch, f"make soak MINUTES={minutes:g}", answered, grown)
    for name, share in grown.items():
        console.print(f"{name}: {100 * share:+.1f} % from the middle third to the last")
    raise typer.Exit(1 if any(share > GROWTH_MAX for share in grown.values()) else 0)


def quick_ledger() -> Topic:
    """The ledger, with segments that are compacted after minutes."""
    assert LEDGER.segments is not None
    share = SEGMENT_S * 1000 / LEDGER.segments.segment_ms
    segments = replace(
        LEDGER.segments,
        segment_ms=round(SEGMENT_S * 1000),
        nulls_ms=round(LEDGER.segments.nulls_ms * share),
    )
    return replace(LEDGER, segments=segments)


def about() -> str:
    """When, and on how busy a machine."""
    day = datetime.fromtimestamp(time.time(), UTC).date().isoformat()
    cores, busy = os.cpu_count(), os.getloadavg()[2]
    return f"{day}, {cores} cores, load of the last 15 minutes {busy:.1f}"


def write(out: Path, watch: Watch, command: str, answered: int, grown: Mapping[str, float]) -> None:
    """The figure, and what it was made of."""
    lines = {
        name: [(at / 60, 100 * value / (points[len(points) // 3][1] or 1)) for at, value in points]
        for name, points in watch.seen.items()
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "soak.svg").write_text(
        chart(lines, "minutes", "per cent of what it was after a third", 200.0), encoding="utf-8"
    )
    (out / "soak.json").write_text(
        json.dumps(
            {
                "command": command,
                "about": about(),
                "answered": answered,
                "grown": dict(grown),
                "seen": watch.seen,
            }
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    app()
