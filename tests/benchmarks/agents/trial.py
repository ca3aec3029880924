"""A trial of one contestant: its topics, the tool server, the workers, and the runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.benchmarks.agents.entrant import Driven, Entrant, Load, Task
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Contestant, Field, Rig


@contextmanager
def trial(
    rig: Rig, entrant: Entrant, task: Task, latency: Latency, load: Load
) -> Iterator[tuple[Field, Contestant, Contestant | None, Driven]]:
    """Everything of one contestant, from its topics to its end."""
    field = rig.field()
    named = Task(entrant.named(field, task.plan), task.result_bytes)
    rig.begin(latency, named.plan)
    entrant.prepare(field, named)
    try:
        server = entrant.servers(field)
        with entrant.driving(field, load) as driven:
            yield field, entrant.workers(field), server, driven
    finally:
        field.end()
