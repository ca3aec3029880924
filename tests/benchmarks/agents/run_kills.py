"""Two `kill -9` of worker and tool server under load: what is lost, doubled, asked again."""

import time
from collections.abc import Iterator
from contextlib import suppress

from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.agents.entrant import Entrant, Load, Task
from tests.benchmarks.agents.trial import trial
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.journal import HUNG_UP, Call
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Contestant, Field, Rig
from tests.benchmarks.size import Size

NAME = "agent"
STEPS = 2
OPEN = 200
KILLS = 2
END_LIMIT_S = 90.0  # without another run that ended
LOOK_S = 0.2
COMMIT_S = 1.0  # what a commit takes at the most, on a busy machine


def measure(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """The tool notes each effect in a file: it may have it once for each step of each run."""
    count = size.kill_requests
    case = f"two kill -9 of worker and tools, {count:,} runs"
    if not rig.wants(f"{case}: {entrant.who}"):
        return
    task, latency = Task(Plan(STEPS, ("effect",))), Latency("log-normal", 0.3, cap_s=3.0)
    with trial(rig, entrant, task, latency, Load(count, open=OPEN)) as (
        field,
        worker,
        server,
        seen,
    ):
        kills = _kill_twice(rig, field, entrant, worker, server, count)
        _settled(rig, count)
        effects = entrant.effects(field)
    calls = rig.calls()
    cut = sum(call.status == HUNG_UP for call in calls)
    repeated, at_kills = _repeated(calls), sum(_unsettled(calls, kill) for kill in kills)
    rig.say(f"  {seen.lost} lost, {seen.doubled} doubled, {repeated} repeated, {cut} cut")
    judged = entrant.who == "product"
    for name, value, bar in (
        ("lost", seen.lost, Bar("=", 0)),
        ("terminals doubled", seen.doubled, Bar("=", 0)),
        ("effects doubled", len(effects) - len(set(effects)), Bar("=", 0)),
        ("calls of models repeated", repeated, Bar("<=", at_kills)),
        ("unsettled at the kills", at_kills, None),
    ):
        about = {"runs": count, "steps": STEPS}
        yield Figure(NAME, case, entrant.who, name, value, "", bar if judged else None, about)


def _kill_twice(
    rig: Rig,
    field: Field,
    entrant: Entrant,
    worker: Contestant,
    server: Contestant | None,
    count: int,
) -> list[float]:
    """When the kills were, on the wall clock."""
    kills = []
    for kill in range(1, KILLS + 1):
        _ended(rig, count * kill // (KILLS + 1))
        kills.append(time.time())
        worker.kill()
        if server:
            server.kill()
            server = entrant.servers(field)
        worker = entrant.workers(field)
    return kills


def _unsettled(calls: list[Call], kill: float) -> int:
    """Calls that ran, or whose answer was so young that it may not have been committed."""
    return sum(call.span.begin < kill < call.span.end + COMMIT_S for call in calls)


def _ended(rig: Rig, count: int) -> None:
    """Runs of which the model has given the last answer."""
    rig.wait(lambda: rig.stub.stats()["ended"] >= count, f"{count} ends", END_LIMIT_S, LOOK_S)


def _settled(rig: Rig, count: int) -> None:
    """All runs have ended, or none has for a while."""
    ended, since = 0, time.monotonic()
    with suppress(RuntimeError):
        while ended < count and time.monotonic() - since < END_LIMIT_S / 3:
            now = rig.stub.stats()["ended"]
            since = time.monotonic() if now > ended else since
            ended = max(now, ended)
            time.sleep(LOOK_S)
    time.sleep(5.0)  # until the last terminals are seen


def _repeated(calls: list[Call]) -> int:
    """Calls beyond those that each run needs; a run that was lost may have made fewer."""
    made: dict[str, int] = {}
    for call in calls:
        made[call.request_id] = made.get(call.request_id, 0) + 1
    return sum(max(times - STEPS - 1, 0) for times in made.values())
