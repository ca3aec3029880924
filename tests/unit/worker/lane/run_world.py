"""A worker with agents on virtual time, tool servers that do as they are told, and what holds."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from aiokafka import TopicPartition

from answerbus.call_id import call_name, request_of_call
from answerbus.outcome import Origin
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.resumed_run import RunResumed
from answerbus.topics import (
    DEAD_LETTERS,
    LEDGER,
    PARTITIONS_DEFAULT,
    REFUSALS,
    RESULTS,
    RETRIES,
    RUNS,
    STEPS,
    TOOL_RESULTS,
    TOPIC_OF_KIND,
    Topic,
    tool_calls,
)
from services.records.resumed_steps import proves, run_resumed
from services.worker.adapters.kafka.run_reader import SPEAKING, RunReader
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from services.worker.core.request.admit import Admitted
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.run.tool_access import ToolAccess
from services.worker.lane.context import LaneContext, RunSetup
from services.worker.planning.planner import Planner
from tests.unit.worker.builders import NOW, answered, workflow_of
from tests.unit.worker.core.run_builders import actions, call, says, tool
from tests.unit.worker.lane.fakes import Broker, FakeShard, Kept
from tests.unit.worker.lane.world import FakeProvider, Worker, context, events, publish

CALLS = tool_calls("orders")
PRIVATE = (LEDGER, RETRIES, RUNS)
WORKFLOW = workflow_of(0)


def full_id(name: str) -> str:
    """The id of the call that a name means in the workflow of a stage."""
    return f"{name}.{RequestKey(WORKFLOW, request_of_call(name)).mark}"


Json = dict[str, Any]


@dataclass
class RunProvider(FakeProvider):
    """Answers a step by how many the prompt tells of; `steps[n]` is what the model does then.

    `reply` is what it says to all requests instead; `in_order`: it says one after the other,
    also if the prompt tells of more.
    """

    steps: Sequence[Json] = ()
    reply: Reply | None = None
    in_order: bool = False
    call_s: float = 0.05
    asked_of: Counter[tuple[str, int]] = field(default_factory=Counter)  # by request and step
    prompts: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        number = sum(turn.role == "assistant" for turn in prompt.turns)
        self.asked_of[prompt.request_id, number] += 1
        self.prompts.append(prompt)
        number = len(self.prompts) - 1 if self.in_order else number
        reply = self.reply or answered(json.dumps(self.steps[min(number, len(self.steps) - 1)]))
        self.script = lambda *_: (self.call_s, reply)
        return await super().ask(prompt, timeout_s=timeout_s)


Tooling = Callable[[Json], Collection[tuple[float, Json | None]]]
"""What a tool server says of a call: each after so many seconds; None: nothing."""


def prompt_tool(_: Json) -> Collection[tuple[float, Json | None]]:
    return [(0.02, {"kind": "ok", "value": "done"})]


@dataclass
class ToolServers:
    """Read committed calls of all partitions, and answer as `tooling` says."""

    broker: Broker
    tooling: Tooling = prompt_tool
    ran: list[str] = field(default_factory=list)  # names of calls, with their delivery
    finding: Callable[[Json], Json] = lambda _: {"kind": "unknown"}  # to a question about a call

    async def serve(self) -> None:
        read: Counter[int] = Counter()
        while True:
            for number in range(PARTITIONS_DEFAULT):
                log = self.broker.log(CALLS, number)
                for record in log.records[read[number] :]:
                    self._take(json.loads(record.value or b"{}"))
                read[number] = len(log.records)
            await asyncio.sleep(0.05)

    def _take(self, event: Json) -> None:
        if event["kind"] == "tool_reconcile":
            more = {"kind": "tool_reconciled", "finding": self.finding(event)}
            self.answer(event, {}, **more)
        if event["kind"] == "tool_call":
            self.ran.append(f"{call_name(event['call_id'])}/{event['delivery']}")
            for delay_s, outcome in self.tooling(event):
                if outcome is not None:
                    asyncio.get_running_loop().call_later(delay_s, self.answer, event, outcome)

    def answer(self, event: Json, outcome: Json, **more: Any) -> None:
        reply = event["reply"]
        fields = {
            "kind": "tool_result",
            "call_id": event["call_id"],
            "workflow_id": event["workflow_id"],
            "token": reply["token"],
            "outcome": outcome,
            **more,
        }
        say(self.broker, TOOL_RESULTS, fields, reply["partition"])


def say(broker: Broker, topic: Topic, event: Json | bytes, partition: int = 0) -> None:
    value = event if isinstance(event, bytes) else json.dumps(event).encode()
    broker.log(topic, partition).append(b"key", value, (), broker.clock.now())


class RunConsumer:
    """See run_reader.RunConsumer."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        await asyncio.sleep(0)

    async def stop(self) -> None:
        await asyncio.sleep(0)

    def assign(self, places: Collection[TopicPartition]) -> None:
        self._next = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._next[place] = offset

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0}

    async def beginning_offsets(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self._log(place).end for place in places}

    async def position(self, place: TopicPartition) -> int:
        return self._next[place]

    async def getmany(
        self, *, timeout_ms: int, max_records: int
    ) -> Mapping[TopicPartition, Sequence[Any]]:
        await asyncio.sleep(timeout_ms / 2_000)
        found: dict[TopicPartition, list[Kept]] = {}
        for place, position in self._next.items():
            new = [record for record in self._log(place).records if record.offset >= position]
            if new[:max_records]:
                found[place] = new[:max_records]
                self._next[place] = found[place][-1].offset + 1
        return found

    def _log(self, place: TopicPartition) -> Any:
        topic = next(one for one in SPEAKING if one.name == place.topic)
        return self._broker.log(topic, place.partition)


class RunWorker(Worker):
    """A worker that has agents."""

    def __init__(self, broker: Broker, context: LaneContext) -> None:
        super().__init__(broker, context)
        lives = self.membership
        reader = RunReader(
            lambda: RunConsumer(broker), lambda topic: topic.name, lambda: lives.lifecycles
        )
        self._reading = asyncio.create_task(reader.run())

    def _leave(self) -> None:
        self._reading.cancel()
        super()._leave()

    def _new_shard(self, partition: int) -> FakeShard:
        unavailable = self.context.runs.tools.unavailable
        self.shards.append(FakeShard(self.broker, partition, PRIVATE, unavailable))
        return self.shards[-1]


TOOLS = {
    one.name: one
    for one in (
        tool("orders.get"),
        tool("orders.pay", delivery="at_most_once", approval="always"),
    )
}


def run_context(
    provider: FakeProvider,
    agent: Json | None = None,
    resumptions: Sequence[RunResumed] = (),
    **settings: Any,
) -> LaneContext:
    """A worker's context with one agent, `support`, and the tools of one toolset."""
    outline = AgentDefinition(name="support", version=1, instructions="Help.", **(agent or {}))
    agents = Agents([Agent(outline, () if outline.composition else tuple(TOOLS))])
    around = context(provider, **settings)
    planner = Planner(around.planner.backends, Registry(), agents=agents)
    planner.tools = TOOLS
    chance = iter(range(1, 1_000_000))

    def complete(admitted: Admitted) -> Admitted:
        return replace(admitted, request=agents.with_budget(admitted.request))

    async def is_resumed(request: Request, _: Origin) -> bool:
        return any(proves(event, request) for event in resumptions)

    setup = RunSetup(
        is_on=True,
        has_agents=True,
        tools=ToolAccess(lambda length: next(chance).to_bytes(length, "big")),
        complete=complete,
        is_resumed=is_resumed,
    )
    return replace(around, planner=planner, runs=setup)


TWO_STEPS = (
    actions(says("Looking."), call(order_id="1"), call(order_id="2")),
    actions(call(order_id="3")),
    actions(says("All is well.")),
)


class RunStage:
    """One worker with agents on one broker, a tool server, and the runs published so far."""

    def __init__(
        self,
        steps: Sequence[Json] = TWO_STEPS,
        tooling: Tooling = prompt_tool,
        agent: Json | None = None,
        **settings: Any,
    ) -> None:
        self.broker, self.provider = Broker(), RunProvider(steps=steps)
        self.agent, self.settings = agent, settings
        self.resumptions: list[RunResumed] = []  # by operators
        self.tools = ToolServers(self.broker, tooling)
        self.serving = asyncio.create_task(self.tools.serve())
        self.names: list[str] = []
        self.worker = self.new_worker()

    @classmethod
    async def opened(
        cls, *names: str, call_s: float | None = None, asked: Json | None = None, **stage: Any
    ) -> Self:
        """A stage whose worker has its lane, with requests of these names published."""
        made = cls(**stage)
        if call_s is not None:
            made.provider.call_s = call_s
        await made.worker.open()
        made.publish(*names, **asked or {})
        return made

    def new_worker(self) -> RunWorker:
        made = run_context(self.provider, self.agent, self.resumptions, **self.settings)
        return RunWorker(self.broker, made)

    def resume(self, request: Request) -> None:
        """Publish a replay as an operator does."""
        if request.resumed:
            self.resumptions.append(run_resumed(request, request.resumed, "ops", NOW))
        self.broker.publish(request.model_dump_json().encode(), 0)
        self.names.append(request.request_id)

    def publish(self, *names: str, workflow_id: str = WORKFLOW, **more: Any) -> None:
        for name in names:
            body = {"agent": {"name": "support"}, "ttl_s": 600, **more}
            publish(self.broker, name, workflow_id, **body)
            self.names.append(name)

    async def crash(self) -> None:
        await self.worker.crash()
        self.worker = self.new_worker()

    async def crash_often(self, times: int, after_s: float) -> None:
        for _ in range(times):
            await asyncio.sleep(after_s)
            await self.crash()
            self.worker.assign(0)

    async def end(self) -> None:
        self.serving.cancel()
        await self.worker.drain()

    def control(self, event: Json, topic: Topic | None = None) -> None:
        """On the topic of its kind, unless on another."""
        body = {"by": "ops@acme", "reason": "why", "workflow_id": WORKFLOW}
        body["at"] = "2026-11-21T10:00:00Z"
        say(self.broker, topic or TOPIC_OF_KIND[event["kind"]], {**body, **event})

    def cancel(self, name: str, workflow_id: str = WORKFLOW) -> None:
        fields = {"kind": "cancel", "scope": "request", "request_id": name}
        self.control({**fields, "workflow_id": workflow_id})

    def cancel_workflow(self) -> None:
        self.control({"kind": "cancel", "scope": "workflow", "request_id": None})

    def calls(self, kind: str = "tool_call") -> list[Json]:
        """All that were published, or what went out about them, in no order."""
        found = [
            event
            for number in range(PARTITIONS_DEFAULT)
            for event in events(self.broker, CALLS, partition=number)
        ]
        return [event for event in found if event["kind"] == kind]

    def steps(self, kind: str) -> list[Json]:
        return [event for event in events(self.broker, STEPS) if event["kind"] == kind]

    def ended(self) -> dict[str, Json]:
        """How each call ended."""
        return {call_name(step["call_id"]): step["outcome"] for step in self.steps("tool_ended")}

    def outcomes(self) -> list[Json]:
        return events(self.broker, RESULTS, REFUSALS, DEAD_LETTERS)

    def children(self) -> list[Json]:
        """What ended each child, in the order of time."""
        found = [event for event in self.outcomes() if event.get("parent")]
        return sorted(found, key=lambda event: str(event.get("finished_at") or event.get("at")))

    def open_records(self) -> dict[bytes | None, bytes | None]:
        """What the private topic says is open; that a workflow was cancelled is kept for a day."""
        last = {record.key: record.value for record in self.broker.log(RUNS).records}
        kept = {key for key in last if (key or b"").startswith(b"/cancel/")}
        return {key: last[key] for key in last.keys() - kept if last[key] is not None}
