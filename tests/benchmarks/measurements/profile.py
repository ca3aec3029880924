"""Where the CPU time of a request goes, at 1,000 calls in flight."""

from collections import Counter
from collections.abc import Iterator

from tests.benchmarks import stacks
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import WAITING, WORKFLOWS
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size

NAME = "profile"
IN_FLIGHT = 1_000
START_S = 5.0  # until the first call
SHARE_MIN = 0.01
GROUPINGS = {
    "library that runs": stacks.running,
    "what it runs for": stacks.part,
    "function of ours that runs or called": stacks.cause,
}


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Samples of the worker's stack, grouped in several ways."""
    field = rig.field()
    rig.begin(Latency("log-normal"))
    target = rig.folder / "stacks.jsonl"
    window = (str(target), str(START_S + size.warmup_s), str(size.window_s))
    with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS):
        worker = field.product(IN_FLIGHT, launcher=("-m", "tests.benchmarks.sampling", *window))
        rig.wait(target.exists, "stacks", 2 * (size.warmup_s + size.window_s) + 60)
        worker.kill()
    found = stacks.read(target)
    for case, of in GROUPINGS.items():
        yield from _shares(case, found, of)


def _shares(case: str, found: Counter[stacks.Stack], of: stacks.Grouping) -> Iterator[Figure]:
    parameters = {"samples": sum(found.values())}
    for group, share in stacks.largest(stacks.shares(found, of), SHARE_MIN):
        yield Figure(NAME, case, "product", group, 100 * share, "%", parameters=parameters)
