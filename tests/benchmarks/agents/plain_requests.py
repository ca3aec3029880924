"""What plain requests cost on a worker that has agents, beside one that has none."""

from collections.abc import Iterator
from statistics import mean

from tests.benchmarks.agents.product import agent_toml, serving, topics_of_agents
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import watch

NAME = "agent"
CASE = "plain requests, 200 in flight"
IN_FLIGHT, WAITING, WORKFLOWS = 200, 400, 20_000
TIMES_MAX = 1.02
WHO = {False: "product, no agents", True: "product, with agents"}
ORDER = (False, True, True, False)  # what drifts meanwhile touches both alike


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Each twice, in turns."""
    if not rig.wants(CASE):
        return
    found: dict[bool, list[float]] = {False: [], True: []}
    for with_agents in ORDER:
        cpu_ms = _cpu_ms(rig, size, with_agents=with_agents)
        rig.say(f"  {WHO[with_agents]}: {cpu_ms:.3f} ms")
        found[with_agents].append(cpu_ms)
    for with_agents, values in found.items():
        yield Figure(NAME, CASE, WHO[with_agents], "CPU per request", mean(values), "ms")
    times = mean(found[True]) / mean(found[False])
    bar = Bar("<=", TIMES_MAX)
    yield Figure(NAME, CASE, WHO[True], "times that without agents", times, "", bar)


def _cpu_ms(rig: Rig, size: Size, *, with_agents: bool) -> float:
    field = rig.field()
    if with_agents:
        topics_of_agents(field)
        serving(field, {})
    rig.begin(Latency("log-normal"))
    with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS):
        worker = field.product(IN_FLIGHT, agents=agent_toml() if with_agents else "")
        steady = watch(rig, worker, size.warmup_s, size.window_s)
    field.end()
    return steady.cpu_ms
