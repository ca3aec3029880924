"""What keeps the promises, broken on purpose: patches of the running test, never of a file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from unittest import mock

from answerbus.outcome import RetryRequest
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES
from services.worker.adapters.kafka.intake import PartitionIntake
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.shard import KafkaShard
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, is_counted
from services.worker.core.attempt.tariff import Tariff
from services.worker.core.budget import ledger as shared_limit
from services.worker.core.budget.account import Account
from services.worker.core.budget.accounts import PackedAccounts
from services.worker.core.budget.audit import give_back
from services.worker.core.budget.closed import ClosedIds
from services.worker.core.outcome import call
from services.worker.core.request import lane_request
from services.worker.core.shared_budget.books import BudgetBooks, BudgetRecord
from services.worker.core.shared_budget.lease import Lease
from services.worker.core.shared_budget.rules import ZERO
from services.worker.lane import opening, recovery, request_task
from services.worker.lane import recovery as orphaned_calls
from services.worker.lane.admission import LaneCallSlot
from services.worker.lane.backpressure import Backpressure
from services.worker.lane.open_lane import OpenLane
from services.worker.lane.opening import RecoveredState
from services.worker.lane.outbox import Outbox
from services.worker.lane.state import suspects
from services.worker.lane.state.suspects import Suspects
from services.worker.lane.state.watermark import Watermark
from services.worker.limits.lease import CallLease
from services.worker.ports.kafka import OutRecord, ReadProgress, StoredRecord
from services.worker.ports.lane import NoCall, Permit
from tests.simulation.producer import SimProducer, SimTransactionalProducer

Patch = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """`name` says what is done wrong; `first` is a history that finds what few do, tried first."""

    name: str
    patch: Patch
    first: int = 0

    def histories(self, most: int) -> Iterator[int]:
        yield self.first
        yield from (n for n in range(most) if n != self.first)


def _spends_without_fence() -> AbstractContextManager[object]:
    """What holds nothing but accounts is a spend: it goes out through a plain producer."""
    commit = KafkaShard.commit

    async def mutated(self: KafkaShard, records: Sequence[OutRecord], offset: int | None) -> None:
        if not records or not all(_is_account(record) for record in records):
            await commit(self, records, offset)
            return
        plain = SimProducer(**self._names.options)
        await plain.start()
        try:
            for record in records:
                topic = self._names.topic(record.topic)
                sent = await plain.send(
                    topic, record.value, record.key, record.partition, record.headers
                )
                await sent
        finally:
            await plain.stop()

    return mock.patch.object(KafkaShard, "commit", mutated)


@contextmanager
def _offset_before_fence() -> Iterator[None]:
    restore, start_offset = opening.restore, PartitionIntake.start_offset
    asked: dict[tuple[int, int], tuple[int, int]] = {}

    async def mutated_restore(shard: Any, *more: Any) -> opening.RecoveredState:
        cluster, number = shard._names.options["cluster"], shard._names.partition
        start = cluster.log(shard._requests.topic, number).start
        asked[id(cluster), number] = cluster.offsets.get(number, start), start
        return await restore(shard, *more)

    async def mutated_start(self: PartitionIntake) -> tuple[int, int]:
        found = await start_offset(self)
        cluster: Any = self.consumer()._cluster
        return asked.pop((id(cluster), self.place.partition), found)

    with (
        mock.patch.object(opening, "restore", mutated_restore),
        mock.patch.object(PartitionIntake, "start_offset", mutated_start),
    ):
        yield


def _sends_not_awaited() -> AbstractContextManager[object]:
    async def mutated(self: KafkaShard, records: Sequence[OutRecord], offset: int | None) -> None:
        producer: Any = self._producer
        if not records and offset is None:
            return
        await producer.begin_transaction()
        for record in records:
            topic = self._names.topic(record.topic)
            await producer.send(
                topic,
                key=record.key,
                value=record.value,
                headers=record.headers,
                partition=record.partition,
            )
        if offset is not None:
            offsets = {self._requests: offset}
            await producer.send_offsets_to_transaction(offsets, self._names.group_id)
        await producer.commit_transaction()

    return mock.patch.object(KafkaShard, "commit", mutated)


def _no_pause_after_rebalance() -> AbstractContextManager[object]:
    assigned = Membership.on_partitions_assigned

    def mutated(self: Membership, places: Any) -> None:
        consumer = self._consumer
        self._consumer = mock.Mock
        try:
            assigned(self, places)
        finally:
            self._consumer = consumer

    return mock.patch.object(Membership, "on_partitions_assigned", mutated)


def _never_pauses() -> AbstractContextManager[object]:
    return mock.patch.object(Backpressure, "_load", return_value=0.0)


def _watermark_plus_one() -> AbstractContextManager[object]:
    committable = Watermark.committable.fget  # type: ignore[attr-defined]
    return mock.patch.object(Watermark, "committable", property(lambda self: committable(self) + 1))


def _without(is_dropped: Callable[[OutRecord], bool]) -> AbstractContextManager[object]:
    """Some records are forgotten."""
    commit = KafkaShard.commit

    async def mutated(self: KafkaShard, records: Sequence[OutRecord], offset: int | None) -> None:
        await commit(self, [record for record in records if not is_dropped(record)], offset)

    return mock.patch.object(KafkaShard, "commit", mutated)


def _refund() -> AbstractContextManager[object]:

    def mutated(reply: Reply) -> bool:
        return is_counted(reply) and type(reply).__name__ not in {"TimedOut", "Unavailable"}

    return mock.patch.object(call, "is_counted", mutated)


def _no_write_off() -> AbstractContextManager[object]:
    return mock.patch.object(recovery, "settle_orphaned_calls", return_value=[])


def _write_off_refunds() -> AbstractContextManager[object]:
    return mock.patch.object(orphaned_calls, "write_off", give_back)


def _no_proof() -> AbstractContextManager[object]:
    async def mutated(self: PartitionIntake, offset: int) -> None:
        pass

    return mock.patch.object(PartitionIntake, "prove", mutated)


def _keeps_all_calls() -> AbstractContextManager[object]:
    def mutated(lane: Any, ledger: Any) -> set[Any]:
        lane.cancel_uncalled()
        spends: set[Any] = lane.calls.spends
        return spends

    return mock.patch.object(recovery, "_keep_calls", mutated)


def _blames_all_in_flight() -> AbstractContextManager[object]:
    """Two crashes are enough, also with others in flight."""

    def mutated(self: Suspects, request: RequestKey) -> int | None:
        suspect = self.found.get(request)
        return suspect.crashes if suspect and suspect.crashes >= suspects.HELD_FROM else None

    return mock.patch.object(Suspects, "given_up", mutated)


def _forgets_suspects() -> AbstractContextManager[object]:
    def mutated(*_: object) -> Suspects:
        return Suspects()

    return mock.patch.object(orphaned_calls, "suspects_of", mutated)


def _is_account(record: OutRecord) -> bool:
    return record.topic is LEDGER and record.key.startswith(b"account:")


def _offset_after_forwards() -> AbstractContextManager[object]:
    """As a lane with a ledger does it, which knows what it has forwarded."""

    def mutated(shard: Any, on_lost: Any, observer: Any, *_: Any) -> Outbox:
        return Outbox(shard, on_lost, observer)

    return mock.patch.object(recovery, "Outbox", mutated)


def _forgets_early() -> AbstractContextManager[object]:
    """Each chunk is let go of at the next look, however young it is."""
    forget = ClosedIds.forget

    def mutated(self: ClosedIds, now: datetime, committable: int) -> None:
        forget(self, now, committable)
        self._chunks.clear()

    return mock.patch.object(ClosedIds, "forget", mutated)


def _packed_without(**lost: object) -> AbstractContextManager[object]:
    """An account that was packed comes back without something."""
    take = PackedAccounts.take

    def mutated(self: PackedAccounts, account_id: str) -> Account | None:
        found = take(self, account_id)
        return replace(found, **lost) if found else None  # type: ignore[arg-type]

    return mock.patch.object(PackedAccounts, "take", mutated)


def _ids_not_read() -> AbstractContextManager[object]:
    """An opening serves before the closed ids are read: accounts and retries are enough for it."""

    def mutated(self: RecoveredState, record: StoredRecord) -> None:
        if not (record.key or b"").startswith((b"closed:", b"closed_ids:")):
            take(self, record)

    take = RecoveredState.take
    return mock.patch.object(RecoveredState, "take", mutated)


def _read_again_at_half() -> AbstractContextManager[object]:
    """An opening that goes on with one that failed begins behind what that one had read."""
    start = KafkaShard._start_reader

    async def mutated(self: KafkaShard, progress: ReadProgress) -> Any:
        reader = await start(self, progress)
        for topic, position in progress.positions.items():
            progress.positions[topic] = position + 1
            reader.seek(*(p for p, found in self._past.items() if found is topic), position + 1)
        return reader

    return mock.patch.object(KafkaShard, "_start_reader", mutated)


def _keys_without_workflow() -> AbstractContextManager[object]:
    def mutated(self: RequestKey, part: str = "") -> str:
        return f"{self.request_id}{part}@w"

    return mock.patch.object(RequestKey, "record_key", mutated)


def _fallback_without_spend() -> AbstractContextManager[object]:
    """Another provider is asked within the call of the first, with the same permit."""
    call_one = LaneCallSlot.call

    async def mutated(self: LaneCallSlot, prompt: Prompt, permit: Permit) -> call.Call | NoCall:
        made = await call_one(self, prompt, permit)
        for fallback in self.plan.profile.fallbacks:
            if isinstance(made, call.Call) and made.failure:
                other = self.lane.context.planner.backends[fallback.profile]
                await other.provider.ask(replace(prompt, attempt=permit.spend.attempt), timeout_s=1)
        return made

    return mock.patch.object(LaneCallSlot, "call", mutated)


def _forgets_failures() -> AbstractContextManager[object]:
    """What is recovered of a retry does not say how attempts failed."""
    progress_of = lane_request.progress_of

    def mutated(entry: RetryRequest, key: bytes) -> lane_request.RequestProgress:
        return replace(progress_of(entry, key), failed=())

    return mock.patch.object(lane_request, "progress_of", mutated)


def _lease_kept_after_a_loss() -> AbstractContextManager[object]:
    """What a lane has spent of its leases is forgotten when it opens, and nobody is asked."""
    restore = BudgetBooks.restore

    def mutated(self: BudgetBooks, record: BudgetRecord) -> None:
        restore(self, record)
        for lease in self.leases.values():
            lease.used, lease.is_confirmed = ZERO, True

    return mock.patch.object(BudgetBooks, "restore", mutated)


def _claims_are_not_held() -> AbstractContextManager[object]:
    """Two claims of one lane are both given what only one may have."""
    return mock.patch.object(Lease, "hold")


MUTATIONS = (
    Mutation("a lease is kept after a loss", _lease_kept_after_a_loss),
    Mutation("a claim does not hold what it was given", _claims_are_not_held, first=13),
    Mutation("a fallback is asked without a spend", _fallback_without_spend),
    Mutation("an opening forgets how attempts failed", _forgets_failures, first=113),
    Mutation("a record key lacks the workflow", _keys_without_workflow),
    Mutation("an id is forgotten early", _forgets_early),
    Mutation(
        "a chunk of ids is lost",
        lambda: _without(lambda record: record.key.startswith(b"closed_ids:")),
    ),
    Mutation("a packed account forgets what it spent", lambda: _packed_without(charged=(0, 0, 0))),
    Mutation("a packed account forgets its chain", lambda: _packed_without(packed_hash=None)),
    Mutation("an opening serves before the ids are read", _ids_not_read),
    Mutation("a record of the past is passed over when its reading begins", _read_again_at_half),
    Mutation("a spend goes through a plain idempotent producer", _spends_without_fence, first=131),
    Mutation("the committed offset is read before fencing", _offset_before_fence),
    Mutation(
        "a request that is read again adds its attempts again",
        lambda: mock.patch.object(shared_limit, "is_later", return_value=True),
        first=21,
    ),
    Mutation("sends are not awaited", _sends_not_awaited),
    Mutation("pause is not applied again after a rebalance", _no_pause_after_rebalance),
    Mutation("the watermark is one too far", _watermark_plus_one),
    Mutation(
        "a terminal has no closed entry",
        lambda: _without(lambda record: record.key.startswith(b"closed:")),
    ),
    Mutation("a call that ran is refunded", _refund),
    Mutation("a full lane does not pause", _never_pauses, first=100),
    Mutation("a slot is not given back", lambda: mock.patch.object(CallLease, "leave_limits")),
    Mutation(
        "permits do not expire",
        lambda: mock.patch.object(request_task, "PERMIT_S", 1e9),
        first=42,
    ),
    Mutation(
        "a retry is not ended with its terminal",
        lambda: _without(lambda record: record.topic is RETRIES and record.value is None),
    ),
    Mutation(
        "attempts are not written down",
        lambda: _without(lambda record: record.topic.name == "attempts"),
    ),
    Mutation("a predecessor's calls are not written off", _no_write_off, first=8),
    Mutation("a predecessor's calls are written off for nothing", _write_off_refunds, first=8),
    Mutation("a lane is opened again without proof of membership", _no_proof, first=7),
    Mutation(
        "all that were in flight at a few crashes are given up", _blames_all_in_flight, first=38
    ),
    Mutation("an opening forgets who was suspect", _forgets_suspects, first=2),
    Mutation(
        "a lane that was opened often stays careful while it lasts",
        lambda: mock.patch.object(OpenLane, "leave_careful_mode"),
    ),
    Mutation(
        "a call has the price of the wrong tier",
        lambda: mock.patch.object(
            Tariff, "_served", lambda tariff, _served, _usage: (tariff.asked, ())
        ),
    ),
    Mutation("outcomes are written again without a look at the ledger", _keeps_all_calls, first=44),
    Mutation("what is forwarded goes out before its offset", _offset_after_forwards, first=13),
    Mutation(
        "a producer keeps its epoch when an answer was not seen",
        lambda: mock.patch.object(
            SimTransactionalProducer, "begin_transaction", SimProducer.begin_transaction
        ),
        first=7,
    ),
)
