"""Two `kill -9` of worker and tool server under load: what is lost, doubled, asked again."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.agents.entrant import Effect, Entrant, Load, Task
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
RUNS_OF_RIVALS = 600  # who is slower shall not take longer
END_LIMIT_S = 90.0  # until a third of the runs have ended
IDLE_S = 20.0  # longer than a tool's time-out and a member's session
SETTLE_LIMIT_S = 120.0
LOOK_S = 0.2


def measure(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """The tool notes each effect in a file: it may have it once for each step of each run."""
    judged = entrant.who == "product"
    count = size.kill_requests if judged else min(size.kill_requests, RUNS_OF_RIVALS)
    case = "two kill -9 of worker and tools"
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
        _settled(rig)
        effects = entrant.effects(field)
    calls = rig.calls()
    cut = sum(call.status == HUNG_UP for call in calls)
    repeated = _repeated(calls)
    at_kills = sum(unsettled(calls, effects, seen.ended_at, kill) for kill in kills)
    places = {(effect.run, effect.number) for effect in effects}
    rig.say(f"  {seen.lost} lost, {seen.doubled} doubled, {repeated} repeated, {cut} cut")
    for name, value, bar in (
        ("lost", seen.lost, Bar("=", 0)),
        ("terminals doubled", seen.doubled, Bar("=", 0)),
        ("effects doubled", len(effects) - len(places), Bar("=", 0)),
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


def unsettled(
    calls: list[Call], effects: list[Effect], ended_at: Mapping[str, float], kill: float
) -> int:
    """Calls whose step nothing shows to have been committed by then: neither effect nor end."""
    made: dict[str, list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda one: one.span.begin):
        if call.span.begin < kill:
            made[call.request_id].append(call)
    shown: Counter[str] = Counter()
    for effect in effects:
        if effect.at < kill:
            shown[effect.run] = max(shown[effect.run], effect.number)
    open_runs = (run for run in made if ended_at.get(run, math.inf) > kill)
    return sum(shown[run] < min(len(made[run]), STEPS + 1) for run in open_runs)


def _ended(rig: Rig, count: int) -> None:
    """Runs of which the model has given the last answer."""
    rig.wait(lambda: rig.stub.stats()["ended"] >= count, f"{count} ends", END_LIMIT_S, LOOK_S)


def _settled(rig: Rig) -> None:
    """No model has been called for a while: all runs have ended, or what is open is lost."""
    calls, since, began = 0, time.monotonic(), time.monotonic()
    while time.monotonic() - since < IDLE_S and time.monotonic() - began < SETTLE_LIMIT_S:
        arrived = rig.stub.stats()["arrived"]
        since = time.monotonic() if arrived > calls else since
        calls = arrived
        time.sleep(LOOK_S)


def _repeated(calls: list[Call]) -> int:
    """Calls beyond those that each run needs; a run that was lost may have made fewer."""
    made: dict[str, int] = {}
    for call in calls:
        made[call.request_id] = made.get(call.request_id, 0) + 1
    return sum(max(times - STEPS - 1, 0) for times in made.values())
