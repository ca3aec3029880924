"""Workers, a provider and a broker on virtual time, and what must be true of them."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import rfc8785
from aiokafka import TopicPartition

from answerbus.attempt import Attempt
from answerbus.partition import partition_of
from answerbus.registry import Registry
from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    LEDGER,
    REFUSALS,
    REQUESTS,
    RESULTS,
    RETRIES,
    Topic,
)
from answerbus.wire import bytes_digest
from services.worker.adapters.kafka.membership import Membership
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, TimedOut
from services.worker.core.shared_budget.rules import BudgetRules
from services.worker.handle import handle
from services.worker.lane.context import LaneContext, Limits
from services.worker.lane.lane import Lane
from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.state.machine import State
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Backend, Planner
from services.worker.ports.provider import Readiness, Ready
from services.worker.tasks.fair_timeout import FairTimeout
from tests.unit.worker import builders
from tests.unit.worker.builders import PARTITIONS, TOPIC, answered, body, workflow_of
from tests.unit.worker.lane.fakes import Broker, FakeIntake, FakeShard, PausedConsumer
from tests.unit.worker.lane.virtual import VirtualClock

POLL_S = 0.02
OUR_WORKFLOW = workflow_of(0)

# What a call does: seconds it takes, and what comes of it.
Script = Callable[[str, int], tuple[float, Reply | BaseException]]


@dataclass
class FakeProvider:
    """Answers as the script says, and keeps a journal of when each call began."""

    script: Script = lambda _request_id, _attempt: (1.0, answered())
    calls: list[tuple[str, int, float]] = field(default_factory=list)
    now_running: int = 0
    most_running: int = 0
    name: str = "fake"
    model: str = "m"

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        new_run = asyncio.get_running_loop().time()
        self.calls.append((prompt.request_id, prompt.attempt, new_run))
        self.now_running += 1
        self.most_running = max(self.most_running, self.now_running)
        try:
            delay_s, reply = self.script(prompt.request_id, prompt.attempt)
            async with FairTimeout(timeout_s):
                await asyncio.sleep(delay_s)
        except TimeoutError:
            reply = TimedOut(timeout_s)
        finally:
            self.now_running -= 1
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def preflight(self) -> Readiness:
        return Ready()

    async def close(self) -> None:
        pass

    def made_for(self, request_id: str) -> list[int]:
        """The attempts that were called."""
        return [attempt for called, attempt, _ in self.calls if called == request_id]


def context(
    provider: FakeProvider,
    worker: str = "me",
    slots: int = 100,
    timeout_s: float = 60.0,
    limits: Limits | None = None,
    jitter: float = 0.5,
    budget_rules: BudgetRules | None = None,
) -> LaneContext:
    facts = ProfileFacts("default", "fake", "m", 100, timeout_s, None)
    backend = Backend(facts, "prompted", provider, ProfileLimiter(slots))
    return LaneContext(
        worker=worker,
        partitions=PARTITIONS,
        planner=Planner({"default": backend}, Registry()),
        clock=VirtualClock(),
        jitter=lambda: jitter,
        backoff=builders.BACKOFF,
        limits=limits or Limits(100, 1_000, 1_000, 10_000_000),
        slots=Slots(slots),
        budget_rules=budget_rules or BudgetRules(),
    )


class Worker:
    """One member of the group, with its lanes and its poll loop."""

    def __init__(self, broker: Broker, context: LaneContext) -> None:
        self.broker, self.context = broker, context
        self.intakes: dict[int, FakeIntake] = {}
        self.shards: list[FakeShard] = []
        self.membership = Membership(lambda: PausedConsumer(self.intakes), self._new_lane_lifecycle)
        self._owned: set[int] = set()
        self._news = asyncio.Event()
        broker.pollers.add(self._news)
        self._polling = asyncio.create_task(self._poll())

    @property
    def lifecycle(self) -> Lifecycle:
        """That of partition 0."""
        return self.membership.lifecycles[0]

    @property
    def lane(self) -> Lane:
        return self.lifecycle.lane

    def assign(self, *partitions: int) -> None:
        for partition in partitions:
            self.broker.owners[partition] = self
        self._owned = set(partitions)
        self.broker.wake_pollers()
        self.membership.on_partitions_assigned({TopicPartition(TOPIC, p) for p in partitions})

    def revoke(self) -> None:
        self.membership.on_partitions_revoked({TopicPartition(TOPIC, p) for p in self._owned})

    async def until(self, state: State, limit_s: float = 60.0) -> None:
        await until(lambda: 0 in self.membership.lifecycles and self.lane.state is state, limit_s)

    async def open(self) -> None:
        self.assign(0)
        await self.until(State.OPEN)

    async def drain(self, limit_s: float = 30.0) -> None:
        """Leave the group as a process does on SIGTERM."""
        await self.membership.drain(limit_s)
        self._leave()

    async def crash(self) -> None:
        """What `kill -9` does: nothing more is said, and what runs here is never heard of again.

        All lanes end at once: what one of them has held goes to no other.
        """
        self._leave()
        running = list[asyncio.Future[Any]]()
        for lifecycle in self.membership.lifecycles.values():
            outbox = lifecycle.lane.open and lifecycle.lane.open.outbox
            end_at_once(lifecycle)
            tasks = [
                *lifecycle.lane.tasks.values(),
                lifecycle._latest_task.current,
                outbox and outbox._task,
            ]
            running += [task for task in tasks if task and not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _leave(self) -> None:
        self._polling.cancel()
        self.broker.pollers.discard(self._news)
        for partition in self._owned:
            if self.broker.owners.get(partition) is self:
                del self.broker.owners[partition]
        self._owned = set()

    async def _poll(self) -> None:
        """Every POLL_S, but not while there is nothing to find: hours may pass without records."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            await self._news.wait()
            await asyncio.sleep(POLL_S - (loop.time() - began_s) % POLL_S)
            self._news.clear()
            for partition in list(self._owned):
                if partition in self.membership.lifecycles and partition in self.intakes:
                    lane = self.membership.lifecycles[partition].lane
                    await self.intakes[partition].poll(lane)

    def _new_lane_lifecycle(self, partition: int) -> Lifecycle:
        intake = self.intakes[partition] = FakeIntake(self.broker, partition, self)
        return Lifecycle(
            partition, self.context, intake, lambda: self._new_shard(partition), handle
        )

    def _new_shard(self, partition: int) -> FakeShard:
        self.shards.append(FakeShard(self.broker, partition))
        return self.shards[-1]


def end_at_once(lifecycle: Lifecycle) -> None:
    """What `kill -9` does to a lane: it hears nothing more, and does nothing."""
    lifecycle.lane._machine._state = State.CLOSED
    lifecycle.lane.writable.clear()
    lifecycle.lane.spendable.clear()
    lifecycle._closed.set()


async def until(condition: Callable[[], bool], limit_s: float = 60.0, look_s: float = 0.01) -> None:
    """Waits for a condition, in virtual time."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(look_s)


def publish(broker: Broker, request_id: str, workflow_id: str = OUR_WORKFLOW, **more: Any) -> int:
    """As upstream does, with a budget that is no matter here; gives the offset."""
    asked = body(request_id, workflow_id, **{"budget": {"attempts": 1_000}, **more})
    return broker.publish(json.dumps(asked).encode(), partition_of(workflow_id, PARTITIONS))


def events(broker: Broker, *topics: Topic, partition: int = 0) -> list[dict[str, Any]]:
    """What readers see, as JSON."""
    return [
        json.loads(record.value)
        for topic in topics
        for record in broker.log(topic, partition).records
        if record.value is not None
    ]


def terminals(broker: Broker, partition: int = 0) -> dict[str, str]:
    """The kind of the terminal of each request; fails if one has two."""
    found: dict[str, str] = {}
    for topic in (RESULTS, REFUSALS, DEAD_LETTERS):
        for record in broker.log(topic, partition).records:
            name, kind = _terminal(record.value or b"")
            assert name not in found, f"{name} has a second terminal"
            found[name] = kind
    return found


@lru_cache(maxsize=100_000)  # a test that waits for the last one looks at each again and again
def _terminal(value: bytes) -> tuple[str, str]:
    event = json.loads(value)
    return event["request_id"] or event["dead_letter_id"], event["kind"]


def final_account(broker: Broker, account_id: str = OUR_WORKFLOW) -> dict[str, Any]:
    accounts = [e for e in events(broker, LEDGER) if e.get("account_id") == account_id]
    return dict(accounts[-1])


def audit(broker: Broker, provider: FakeProvider, partition: int = 0) -> None:
    """G1 to G4, G6 and G11 over what is in the topics, once everything is done."""
    asked = [json.loads(record.value or b"") for record in broker.log(REQUESTS, partition).records]
    assert terminals(broker, partition).keys() == {request["request_id"] for request in asked}
    listed = {record.key: record.value for record in broker.log(RETRIES, partition).records}
    assert set(listed.values()) <= {None}, "all retries were ended"
    attempts = events(broker, ATTEMPTS, partition=partition)
    _audit_accounts(events(broker, LEDGER, partition=partition), attempts)
    _audit_calls(provider, attempts)
    _audit_order(broker, asked, partition)


def _audit_accounts(ledger: list[dict[str, Any]], attempts: list[dict[str, Any]]) -> None:
    accounts = {e["account_id"]: e for e in ledger if e["kind"] == "account"}
    spends = {
        (spend["request_id"], spend["attempt"])
        for event in ledger
        if event["kind"] == "account"
        for spend in event["in_flight"]
    }
    recorded = [(attempt["request_id"], attempt["attempt"]) for attempt in attempts]
    assert len(recorded) == len(set(recorded)), "one Attempt for each spend"
    assert set(recorded) >= spends, "none without"
    by_account: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for attempt in attempts:
        by_account[attempt["account_id"]].append(attempt)
    for account_id, account in accounts.items():
        mine = by_account[account_id]
        assert account["in_flight"] == account["open"] == []
        assert account["spent"]["attempts"] == sum(attempt["counted"] for attempt in mine)
        assert account["spent"]["attempts"] <= account["limit"]["attempts"]
        assert _unbroken(mine) == account["last_attempt_hash"]


def _unbroken(chain: list[dict[str, Any]]) -> str | None:
    last = None
    for event in chain:
        assert event["previous"] == last
        unhashed = {name: value for name, value in event.items() if name != "hash"}
        last = bytes_digest(rfc8785.dumps(unhashed))
        assert event["hash"] == last
        Attempt.model_validate_json(json.dumps(event))
    return last


def _audit_calls(provider: FakeProvider, attempts: list[dict[str, Any]]) -> None:
    made = [(request_id, attempt) for request_id, attempt, _ in provider.calls]
    assert len(made) == len(set(made)), "one call for each permit"
    known = {(attempt["request_id"], attempt["attempt"]): attempt for attempt in attempts}
    assert set(made) <= known.keys(), "no call without a spend"
    for call in known.keys() - set(made):
        assert known[call]["outcome"] in {"released", "unknown"}, "what was not called was not used"


def _audit_order(broker: Broker, asked: list[dict[str, Any]], partition: int) -> None:
    published = [e["request_id"] for e in events(broker, RESULTS, partition=partition)]
    place = {request["request_id"]: number for number, request in enumerate(asked)}
    workflows: dict[str, list[int]] = defaultdict(list)
    chained = [r for r in asked if "policy" not in r and "parent" not in r]
    ordered = {r["request_id"]: r["workflow_id"] for r in chained}
    for request_id in published:
        if request_id in ordered:
            workflows[ordered[request_id]].append(place[request_id])
    for numbers in workflows.values():
        assert numbers == sorted(numbers), "requests of one workflow are answered in order"


def done(broker: Broker, request_ids: Collection[str], partition: int = 0) -> bool:
    return terminals(broker, partition).keys() >= set(request_ids)
