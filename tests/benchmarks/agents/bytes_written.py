"""A10: how much one long run makes the bus, or the database, write."""

from collections.abc import Iterator

from tests.benchmarks.agents.acting import Plan, acting
from tests.benchmarks.agents.entrant import Entrant, Load, Task
from tests.benchmarks.agents.trial import trial
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size

NAME = "agent"
STEPS = 99  # and the answer: a run has 100 steps at most
RESULT_BYTES = 5_000
RUN_LIMIT_S = 150.0
TIMES_MAX = 2.5
STEP_BYTES = 4_096


def measure(rig: Rig, _size: Size, entrant: Entrant) -> Iterator[Figure]:
    """One run; what its answers and results are is the measure of it."""
    case = f"a run of {STEPS + 1} steps, results of 5 KB"
    if not rig.wants(f"{case}: {entrant.who}"):
        return
    task = Task(Plan(STEPS), RESULT_BYTES)
    with trial(rig, entrant, task, Latency("instant"), Load(1, open=1)) as (field, worker, _, _):
        wanted = "the end of the run"
        rig.wait(lambda: rig.stub.stats()["ended"] > 0, wanted, RUN_LIMIT_S)
        worker.stop()
        places = entrant.written(field)
        written = sum(places.values())
    content = STEPS * RESULT_BYTES + _answers()
    most = TIMES_MAX * content + STEP_BYTES * (STEPS + 1)
    bar = Bar("<=", round(most / 1e6, 2)) if entrant.who == "product" else None
    about = {"answers and results": content, **places}
    yield Figure(NAME, case, entrant.who, "written", written / 1e6, "MB", bar, about)
    yield Figure(NAME, case, entrant.who, "times its content", written / content, "", None, about)


def _answers() -> int:
    """Of the model, as it wrote them."""
    answer = acting(Plan(STEPS))
    turn = b'{"role": "assistant"}'
    return sum(len(answer(turn * number, b"bench-00-0").said) for number in range(STEPS + 1))
