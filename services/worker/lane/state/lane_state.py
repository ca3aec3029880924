"""The state of a lane: changes to ledger, queue and watermark return the records to write."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from answerbus.attempt import Attempt
from answerbus.budget import Usage
from answerbus.dead_letter import AnswerTooLarge, BudgetExhausted, Cancelled, Cause, DeadLetter
from answerbus.outcome import RetryRequest
from answerbus.private.ledger import LaneRecord
from answerbus.request_key import RequestKey
from answerbus.topics import ATTEMPTS
from answerbus.trace import Trace
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.budget.account import Account, Spend, plus
from services.worker.core.budget.audit import CallTrace, chain, give_back
from services.worker.core.budget.ledger import (
    Ledger,
    Reserved,
    charge_of,
    closed_record,
    exhausted,
)
from services.worker.core.budget.remaining_budget import BudgetUnit, RemainingBudget
from services.worker.core.outcome import events
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import (
    Decision,
    End,
    NextStep,
    Outcome,
    Verdict,
    Wait,
    attempt_outcome,
)
from services.worker.core.request.admit import Admitted
from services.worker.core.request.lane_request import (
    AtOffset,
    InRetries,
    LaneRequest,
    RequestProgress,
    progress_of,
)
from services.worker.core.run.children import ChildOutcome, Ended
from services.worker.core.run.composition import ComputedStep
from services.worker.core.shared_budget.rules import ZERO
from services.worker.lane.state import records
from services.worker.lane.state.cancellations import Cancellations
from services.worker.lane.state.open_runs import OpenRuns
from services.worker.lane.state.oversized import Oversized
from services.worker.lane.state.own_record import OwnRecord
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.records import LaneWrite
from services.worker.lane.state.shared_budgets import SharedBudgets
from services.worker.lane.state.suspects import Suspects
from services.worker.lane.state.watermark import Watermark
from services.worker.ports.kafka import Outgoing, OutRecord
from services.worker.ports.observer import Observer, Observers, WorkerCounters

CALL_ENDED = Cancelled(by="answerbus", reason="the tool call that asked for it has ended")
FREE = Usage()


@dataclass(slots=True, kw_only=True)
class LaneState:
    """The state of one open lane. Nothing here waits; a lost lane throws its state away.

    `complete` adds to a request what the settings of its agent say.
    """

    partition: int
    partitions: int
    worker: str
    counters: WorkerCounters
    ledger: Ledger
    watermark: Watermark
    queue: Queue
    runs: OpenRuns
    suspects: Suspects = field(default_factory=Suspects)
    observer: Observer = field(default_factory=Observers)
    budgets: SharedBudgets
    complete: Callable[[Admitted], Admitted]
    oversized: Oversized = field(default_factory=Oversized)
    cancellations: Cancellations = field(init=False)
    own_record: OwnRecord = field(init=False)

    def __post_init__(self) -> None:
        self.cancellations = Cancellations(self.partition)
        self.own_record = OwnRecord(self.partition, self.ledger, self.suspects)

    def opening_records(
        self, lane: LaneRecord, orphaned: list[Attempt], traces: Mapping[RequestKey, Trace]
    ) -> LaneWrite:
        """The first transaction of an open lane; `traces` are of requests, as far as known."""
        self.ledger.lane = lane
        return self.writing(
            *(
                records.orphan_record(a, traces.get(RequestKey.of(a)), self.partition)
                for a in orphaned
            ),
            self.own_record.encoded(lane.at),
        )

    def prove_ownership(self, now: datetime) -> LaneWrite:
        """A write of no consequence that only the rightful owner of the partition can commit."""
        return self.writing(self.own_record.encoded(now))

    def pack_ids(self, now: datetime) -> LaneWrite | None:
        """The next step by which single closed ids of the ledger become chunks.

        With it go the records of accounts and ids that are forgotten.
        """
        self.ledger.forget(now, self.watermark.committable)
        self.budgets.renew(now)
        written = [
            records.ledger_tombstone(key, self.partition)
            if chunk is None
            else records.event_record(chunk, self.partition)
            for key, chunk in self.ledger.closed.pack(now)
        ]
        written += [
            records.ledger_tombstone(records.account_key(account_id), self.partition)
            for account_id in self.ledger.take_forgotten()
        ]
        return self.writing(*written) if written or self.budgets.has_unsent else None

    def writing(self, *written: Outgoing) -> LaneWrite:
        """Records for one transaction, with the offset of this moment.

        Accounts that have changed, and what shared budgets have to say, go with them.
        """
        changed = [records.account_record(it, self.partition) for it in self.ledger.take_changed()]
        written = (*written, *changed, *self.budgets.take_unsent())
        return LaneWrite(written, self.watermark.committable)

    def cancel_if_asked(self, lane_request: LaneRequest) -> None:
        """A request that a person has cancelled ends, at once or when its call has ended.

        So does one of which a topic did not take a record.
        """
        too_large = self.oversized.causes.get(lane_request.key)
        if cause := too_large or self.cancellations.cause_of(lane_request):
            self.queue.cancel(lane_request, cause)

    def spend(
        self, lane_request: LaneRequest, plan: Plan, prompt: Prompt, now: datetime
    ) -> tuple[Spend, LaneWrite] | Reserved | BudgetExhausted:
        """Charge one attempt, if the account allows it; a request that must wait is set aside."""
        cost = plan.worst_cost(prompt)
        key, labels = lane_request.key, lane_request.request.labels
        if claimed := self.budgets.claim(key, labels, (1, prompt.tokens_max, cost), now):
            if isinstance(claimed, Reserved):
                self.queue.await_shared_budgets(lane_request, now)
            return claimed
        account = self.ledger.account(lane_request.request, now)
        allowance = self.queue.children.allowance(lane_request, account)
        spend = self.ledger.spend(lane_request.request, prompt.tokens_max, cost, now, allowance)
        if not isinstance(spend, Spend):  # others may have meanwhile what it claimed
            self.budgets.release(key, now)
        if isinstance(spend, Reserved):
            self.queue.await_budget(lane_request, now)
            return spend
        if lane_request.run:  # one that may not spend ends, and needs its minimum no more
            is_spent = isinstance(spend, Spend)
            self.queue.children.set_minimum(
                lane_request, account, reserved=is_spent and plan.may_go_on
            )
        self.queue.budget_back(lane_request.account_id)
        if isinstance(spend, BudgetExhausted):
            return spend
        self.budgets.spend(key, spend)
        return spend, self.writing()

    def exhausted_by(
        self, lane_request: LaneRequest, plan: Plan, now: datetime
    ) -> BudgetUnit | None:
        """What `spend` would say is too little."""
        prompt = plan.prompt(lane_request.request, lane_request.progress.prior)
        need = 1, prompt.tokens_max, plan.worst_cost(prompt)
        if which := self.budgets.beyond(lane_request.request.labels, need, now):
            return which
        account = self.ledger.account(lane_request.request, now)
        allowance = self.queue.children.allowance(lane_request, account)
        return exhausted(account, *need[1:], allowance)

    def budget_after(self, call: Call) -> RemainingBudget:
        """The remaining budget of its request once `commit` has settled the call."""
        account = self.ledger.accounts[call.spend.account_id]
        charged = charge_of(call.spend, call.usage, counted=call.is_counted)
        left = self.queue.children.attempts_left(call.lane_request, account)
        return RemainingBudget(account.limit, plus(account.charged, charged), left - charged[0])

    def is_last_attempt(self, lane_request: LaneRequest, now: datetime) -> bool:
        """Whether only this attempt is left: then the model could not be shown a tool's result."""
        account = self.ledger.account(lane_request.request, now)
        return self.queue.children.attempts_now(lane_request, account) <= 1

    def commit(self, call: Call, verdict: Verdict, now: datetime) -> tuple[Decision, LaneWrite]:
        """Write down the verdict on a call; `apply_decision` follows once that is committed.

        An outcome that its topic did not take becomes a dead letter, which is given instead.
        """
        lane_request = call.lane_request
        if too_large := self.oversized.causes.get(lane_request.key):
            lane_request.add_note(too_large.reason)
            cause = too_large if call.checked is None else AnswerTooLarge()
            verdict = End(lane_request.progress.prior, cause)
        account = self.ledger.settle(call.spend, call.usage, now, counted=call.is_counted)
        self.queue.budget_back(account.id)
        charged = charge_of(call.spend, call.usage, counted=call.is_counted)
        self.budgets.settle(lane_request.request.labels, call.spend, charged, now)
        decision, written = self._outcome(call, verdict, account, now)
        if not call.is_counted:
            self.queue.children.uncounted(lane_request, account)
        elif self.suspects.clear(lane_request.key):
            written.append(self.own_record.encoded(now))
        outcome, failure, trace = attempt_outcome(decision), call.failure, call.trace(self.worker)
        if too_large and self.oversized.has(lane_request.key, ATTEMPTS):
            failure, trace = None, CallTrace(self.worker, usage=call.usage)
        attempt = chain(account, call.spend, outcome, failure, trace, counted=call.is_counted)
        written.append(records.attempt_record(attempt, lane_request, self.partition))
        match decision:
            case Wait():
                return decision, self.writing(*written)
            case NextStep(step=step):
                left = self.queue.children.attempts_now(lane_request, account)
                taken = self.runs.take_step(call, step, account.state, now, left)
                return decision, self.writing(*written, *taken, *self._release_record(lane_request))
            case RetryRequest():
                self._release_offset(lane_request)
                if lane_request.progress.stored != InRetries(written[0].key or b""):
                    written += self._off_retries(lane_request)  # a version before had another key
                return decision, self.writing(*written)
            case _:
                written += self.runs.selected(call, decision, account, now)
                return decision, self._terminal(
                    lane_request, decision, now, *written, last=call.usage
                )

    def take_computed(
        self, lane_request: LaneRequest, computed: ComputedStep, now: datetime
    ) -> LaneWrite:
        """Write down a step without a call; its children leave the run what its last one costs."""
        account = self.ledger.account(lane_request.request, now)
        self.queue.children.set_minimum(lane_request, account, reserved=True)
        self.ledger.change(account, now)
        taken = self.runs.take_computed(lane_request, computed, account.state, now)
        return self.writing(*taken, *self._release_record(lane_request))

    def _outcome(
        self, call: Call, verdict: Verdict, account: Account, now: datetime
    ) -> tuple[Decision, list[OutRecord]]:
        if isinstance(verdict, Wait | NextStep):
            return verdict, []
        outcome = events.event_of(verdict, call, account.state, now)
        return outcome, [self._outcome_record(outcome, call.lane_request)]

    def _outcome_record(self, outcome: Outcome, lane_request: LaneRequest) -> OutRecord:
        return records.outcome_record(outcome, lane_request, self.partition, self.oversized)

    def release(self, lane_request: LaneRequest, spend: Spend, now: datetime) -> LaneWrite:
        """Give back a spend that was not used."""
        attempt = give_back(self.ledger, spend, now, self.worker)
        account = self.ledger.account(lane_request.request, now)
        self.queue.children.uncounted(lane_request, account)
        self.queue.budget_back(spend.account_id)
        self.budgets.settle(lane_request.request.labels, spend, ZERO, now)
        return self.writing(records.attempt_record(attempt, lane_request, self.partition))

    def dead_letter(
        self, lane_request: LaneRequest, cause: Cause, now: datetime
    ) -> tuple[DeadLetter, LaneWrite]:
        """End a request without another call."""
        account = self.ledger.account(lane_request.request, now)
        found = events.dead_letter_without_call(lane_request, cause, account.state, now)
        record = self._outcome_record(found, lane_request)
        return found, self._terminal(lane_request, found, now, record)

    def apply_decision(self, lane_request: LaneRequest, decision: Decision) -> None:
        """Let a committed decision take effect on the queue."""
        match decision:
            case Wait():
                before = lane_request.progress
                self.queue.wait(lane_request, replace(before, waits=before.waits + 1))
            case NextStep():
                self.queue.await_tools(lane_request, RequestProgress())
                self.signal_if_answered(lane_request)
            case RetryRequest():
                progress = progress_of(decision, lane_request.key.record_key().encode())
                self.queue.delay(lane_request, decision.not_before, progress)
            case _:
                self.oversized.causes.pop(lane_request.key, None)
                if above := self.queue.finish(lane_request):  # it was the last child of a run
                    self.signal_if_answered(above)

    def signal_if_answered(self, lane_request: LaneRequest) -> None:
        """Let a run go on whose calls have all ended; while its step is committed, after that.

        A child ends with the call that asked for it, and before the run goes on.
        """
        self.stop_children(lane_request)
        run = lane_request.run
        if run and not run.open and not self.queue.children.of(lane_request):
            self.queue.signal(lane_request)

    def stop_children(self, lane_request: LaneRequest) -> None:
        """End the children of a run whose calls have ended."""
        for child in self.queue.children.of(lane_request):
            parent = child.request.parent
            if parent and lane_request.run and lane_request.run.open_call(parent.call_id) is None:
                self.queue.cancel(child, CALL_ENDED)

    def _terminal(
        self,
        lane_request: LaneRequest,
        outcome: Ended,
        now: datetime,
        *written: OutRecord,
        last: Usage = FREE,
    ) -> LaneWrite:
        """All that ends a request, beside the event `written`; `last` is what its call used."""
        joined = self._joined(lane_request, outcome, last, now)
        closed = closed_record(
            lane_request.request.request_id,
            lane_request.request.workflow_id,
            lane_request.body_digest,
            outcome.kind,
            self._position_of(lane_request),
            now,
        )
        self.ledger.close(closed, lane_request.account_id)
        self.queue.budget_back(lane_request.account_id)
        self.budgets.release(lane_request.key, now)
        self.suspects.clear(lane_request.key)
        ended = self._release_record(lane_request)
        if lane_request.run or lane_request.cancelled or lane_request.request.parent:
            ended += self.runs.end(lane_request, now)
            ended += self.cancellations.end(lane_request)
        progress = self.own_record.without_failed_openings(now)
        return self.writing(
            *written,
            *joined,
            *ended,
            records.closed_entry(closed, self.partition),
            *([progress] if progress else []),
        )

    def _joined(
        self, lane_request: LaneRequest, outcome: Ended, last: Usage, now: datetime
    ) -> Sequence[Outgoing]:
        children, parent = self.queue.children, lane_request.request.parent
        above = children.parent_of(lane_request)
        if above is None or parent is None:
            return []
        spent = children.used(lane_request, self.ledger.account(lane_request.request, now))
        usage = outcome.run.usage if outcome.run else lane_request.progress.used.plus(last)
        ended = ChildOutcome(parent.call_id, outcome, spent, usage)
        return self.runs.apply_signal(above, ended, now)

    def _release_record(self, lane_request: LaneRequest) -> list[OutRecord]:
        """Offset and entry of a request are needed no more: it ends, or is known by its run."""
        self._release_offset(lane_request)
        return self._off_retries(lane_request)

    def _off_retries(self, lane_request: LaneRequest) -> list[OutRecord]:
        """The end of what the retries topic has of it."""
        stored = lane_request.progress.stored
        if not isinstance(stored, InRetries):
            return []
        return [records.retry_tombstone(stored.key, self.partition)]

    def _position_of(self, lane_request: LaneRequest) -> int:
        """The offset in this partition up to which the request's record may be delivered again."""
        stored = lane_request.progress.stored
        if isinstance(stored, AtOffset):
            return stored.offset
        position = self.watermark.position  # a forwarded record is somewhere below it
        ours = lane_request.origin.partition == self.partition
        return min(lane_request.origin.offset, position) if ours else position

    def _release_offset(self, lane_request: LaneRequest) -> None:
        if isinstance(stored := lane_request.progress.stored, AtOffset):
            self.watermark.finish(stored.offset)
