"""Many runs that wait, for a tool or for people: memory, and lanes that open with them."""

import time
from collections.abc import Iterator

from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.agents.entrant import Entrant, Load, Task
from tests.benchmarks.agents.product import Product, published_all
from tests.benchmarks.agents.trial import trial
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import PARTITIONS, Rig
from tests.benchmarks.size import Size

NAME = "agent"
CONTEXT_BYTES = 32 * 1024
MEMORY_MIB_MAX = 500.0
OPENING_S_MAX = 5.0
WAITING_LIMIT_S = 120.0
SETTLE_S = 3.0  # until the last steps are committed
LOOK_EVERY_S = 0.05


QUESTION = {
    "question": "The parcel to this customer came back. To which address is it to be sent?",
    "json_schema": {
        "type": "object",
        "properties": {
            "street": {"type": "string", "maxLength": 100},
            "city": {"type": "string", "maxLength": 100},
        },
        "required": ["street", "city"],
        "additionalProperties": False,
    },
    "to": "customer care",
}
ASKED = Plan(1, ("ask_person",), toolset="", args=QUESTION)


def measure(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """The tool server is there to announce its tools, and then no more."""
    for who, plan in (("runs", Plan(1, ("wait",))), ("questions", ASKED)):
        case = f"{size.waiting_runs:,} {who} wait, 32 KiB each"
        if rig.wants(f"{case}: {entrant.who}"):
            asking = Product(agent="ask_person = true\n") if plan is ASKED else entrant
            yield from _waiting(rig, size.waiting_runs, asking, case, plan)


def _waiting(rig: Rig, runs: int, entrant: Entrant, case: str, plan: Plan) -> Iterator[Figure]:
    with trial(rig, entrant, Task(plan), Latency("instant"), Load(0)) as (field, first, server, _):
        assert server
        server.kill()
        published_all(field, runs, CONTEXT_BYTES)
        wanted = "the first step of all runs"
        rig.wait(lambda: rig.stub.stats()["answered"] >= runs, wanted, WAITING_LIMIT_S)
        time.sleep(SETTLE_S)
        used = first.usage()
        first.stop()  # in order: how long a group waits for a dead member is no matter here
        worker = entrant.workers(field)
        began = time.monotonic()
        lanes = "open lanes"
        rig.wait(lambda: worker.open_lanes() == PARTITIONS, lanes, WAITING_LIMIT_S, LOOK_EVERY_S)
        opening_s = time.monotonic() - began
        reopened = worker.usage()
        asked_again = rig.stub.stats()["answered"] - runs
        field.end()
    about = {"runs": runs, "context_bytes": CONTEXT_BYTES}
    for name, value, unit, bar in (
        ("memory", used.rss_mib, "MiB", Bar("<=", MEMORY_MIB_MAX)),
        ("peak memory", used.peak_mib, "MiB", None),
        ("peak memory after reopening", reopened.peak_mib, "MiB", Bar("<=", MEMORY_MIB_MAX)),
        ("all lanes open again", opening_s, "s", Bar("<=", OPENING_S_MAX)),
        ("steps asked again", asked_again, "", Bar("=", 0)),
    ):
        yield Figure(NAME, case, entrant.who, name, value, unit, bar, about)
