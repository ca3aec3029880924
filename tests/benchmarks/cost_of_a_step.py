"""`python -m tests.benchmarks.cost_of_a_step`: CPU of asking for the steps of one long run."""

import asyncio
import random
import sys
import time

from pydantic_core import to_json

from answerbus.registry import Registry
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.run import transitions
from services.worker.core.run.agents import Agents
from services.worker.core.run.run import Run
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, Planner
from tests.unit.worker.core.run_builders import asked, call, definition, inputs, result, sent, taken
from tests.unit.worker.lane.world import FakeProvider

STEPS = (10, 50, 99)
RUNS = 5
TRANSCRIPT_BYTES = 1_000_000
FACTS = ProfileFacts("default", "openai", "m", 1_000, 60.0, None)
API = OpenAIApi(Connection("m", "key", 1))
REQUEST = asked()
RESULTS = {
    "32 bytes": "the order is on its way to you. ",
    "5 KB of words": "the order is on its way to you. " * 160,
    "5 KB of hexadecimal digits": random.Random(1).randbytes(2_560).hex(),
}


async def costs_ms(value: str) -> list[float]:
    """Of each step of a run: from the run to the bytes that ask the model, and to its charge."""
    backend = Backend(FACTS, "openai", FakeProvider(), ProfileLimiter(1))
    planner = Planner({"default": backend}, Registry(), b"secret", Agents())
    run = Run(definition(steps_max=100, transcript_bytes_max=TRANSCRIPT_BYTES))
    found = []
    for number in range(1, STEPS[-1] + 1):
        began = time.thread_time()
        plan = await planner.plan_step(REQUEST, run, is_last_attempt=False)
        assert isinstance(plan, Plan)
        prompt = plan.prompt(REQUEST, ())
        to_json(API.request(prompt).body)
        _ = prompt.tokens_max, plan.worst_cost(prompt), prompt.frame, prompt.digest
        found.append((time.thread_time() - began) * 1e3)
        run = _after_a_call(run, number, value)
    return found


def _after_a_call(run: Run, number: int, value: str) -> Run:
    change = taken(run, call(order_id=str(number)))
    (made,) = sent(change)
    ended = transitions.on_result(change.run, result(made, value), inputs())
    assert ended is not None
    return ended.run


def main() -> None:
    """One line for each size; of each step the least of some runs, since others work here, too."""
    for name, value in RESULTS.items():
        runs = [asyncio.run(costs_ms(value)) for _ in range(RUNS)]
        least = [min(times) for times in zip(*runs, strict=True)]
        told = ", ".join(f"step {number} {least[number - 1]:.2f} ms" for number in STEPS)
        sys.stdout.write(f"results of {name}: {told}\n")


if __name__ == "__main__":
    main()
