"""Our workers and our tool server, as an entrant: requests with an agent, results as terminals."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from answerbus.topics import RUN_TOPICS, tool_calls, toolset_cards
from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.agents.entrant import IN_FLIGHT, Driven, Effect, Load, Task
from tests.benchmarks.agents.kafka_bytes import kafka_bytes
from tests.benchmarks.agents.toolset import EFFECTS_VARIABLE, RESULT_VARIABLE, TOOLSET
from tests.benchmarks.downstream import Downstream, watching
from tests.benchmarks.feed import meanwhile
from tests.benchmarks.journal import MARK, MARK_END
from tests.benchmarks.rig import Contestant, Field
from tests.integration.bus import create_topics

AGENT = "bench"
TOOLS = ("echo", "straggle", "effect", "wait")
BUDGET_ATTEMPTS = 1_000
TTL_S = 86_400
LOOK_EVERY_S = 0.02
RESULTS = "tool-results.v1"
STEPS_MAX, PARALLEL_MAX = 100, 8
SERVE = ["-m", "services.cli", "tools", "serve", "tests.benchmarks.agents.toolset:bench"]


class Product:
    """See the module. `agent` are more lines of its settings, `options` settings of the workers."""

    def __init__(self, who: str = "product", agent: str = "", **options: Any) -> None:
        self.who, self._agent, self._options = who, agent, options
        self._variables: dict[str, str] = {}

    def named(self, field: Field, plan: Plan) -> Plan:
        """Topics are of the trial alone, so names need not be."""
        return plan

    def prepare(self, field: Field, task: Task) -> None:
        """The topics of agents and tools."""
        topics_of_agents(field)
        effects = field.rig.folder / f"{field.bus.prefix}-effects"
        effects.touch()
        self._variables = {
            EFFECTS_VARIABLE: str(effects),
            RESULT_VARIABLE: str(task.result_bytes),
        }

    def servers(self, field: Field) -> Contestant:
        """One tool server."""
        return serving(field, self._variables)

    def workers(self, field: Field) -> Contestant:
        return field.product(IN_FLIGHT, agents=agent_toml() + self._agent, **self._options)

    @contextmanager
    def driving(self, field: Field, load: Load) -> Iterator[Driven]:
        """Requests are published; their terminals are read as any service would."""
        driven = Driven()
        with watching(field.bus) as seen, _publishing(field, load, seen, driven):
            yield driven
        driven.ended_at = dict(seen.seen_at)
        driven.doubled = seen.doubled

    def written(self, field: Field) -> Mapping[str, int]:
        """All that the worker wrote; what the tool answered is what is measured against."""
        found = kafka_bytes(field, f"{field.bus.prefix}.")
        return {topic: size for topic, size in found.items() if topic != RESULTS}

    def effects(self, field: Field) -> list[Effect]:
        """As the tool noted them."""
        lines = (field.rig.folder / f"{field.bus.prefix}-effects").read_text().splitlines()
        return [Effect.of_line(line) for line in lines]


def topics_of_agents(field: Field) -> None:
    """What a bus with agents has beside the rest."""
    asyncio.run(create_topics(field.bus, topics=RUN_TOPICS))
    for topic in (tool_calls(TOOLSET), toolset_cards(TOOLSET)):
        own = replace(field.bus, partitions=topic.partitions or field.bus.partitions)
        asyncio.run(create_topics(own, topics=[topic]))


def serving(field: Field, variables: dict[str, str]) -> Contestant:
    """A tool server that has announced its card."""
    config = field.config(IN_FLIGHT, {})
    command = [sys.executable, *SERVE, "--config", str(config)]
    return Contestant("tools", [field.start("tools", command, "serving", variables)])


def agent_toml() -> str:
    """The agent, for the workers' settings."""
    tools = json.dumps([f"{TOOLSET}.{tool}" for tool in TOOLS])
    return (
        f'[agents.{AGENT}]\ninstructions = "You work."\ntools = {tools}\n'
        f"steps_max = {STEPS_MAX}\nparallel_max = {PARALLEL_MAX}\n"
    )


def run_body(request_id: str, workflow_id: str, context_bytes: int = 0) -> dict[str, Any]:
    """A request for a run, marked for the stub's journal."""
    filler = [{"role": "user", "content": "x" * context_bytes}] if context_bytes else []
    mark = f"{MARK.decode()}{request_id}{MARK_END.decode()}"
    return {
        "kind": "request",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "answer_schema": {"kind": "text"},
        "agent": {"name": AGENT},
        "context": {"instructions": f"{mark} Work.", "messages": filler},
        "budget": {"attempts": BUDGET_ATTEMPTS},
        "ttl_s": TTL_S,
    }


def _publishing(
    field: Field, load: Load, seen: Downstream, driven: Driven
) -> AbstractContextManager[None]:
    def publish(over: threading.Event) -> None:
        for number in range(load.count):
            while load.open and number - len(seen.seen_at) >= load.open:
                if over.wait(LOOK_EVERY_S):
                    return
            if over.wait(1 / load.per_s if load.per_s else 0):
                return
            name = f"{field.bus.prefix}-{number}"
            field.upstream.publish(run_body(name, f"w-{name}"))
            driven.started += 1
        field.upstream.flush()

    return meanwhile(publish)


def published_all(field: Field, number: int, context_bytes: int) -> list[str]:
    """So many runs at once, each of a workflow of its own."""
    names = [f"{field.bus.prefix}-{n}" for n in range(number)]
    field.upstream.publish_all(run_body(name, f"w-{name}", context_bytes) for name in names)
    return names
