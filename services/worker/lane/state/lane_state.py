"""The state of a lane: ledger, queue and watermark change here, and records come out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from answerbus.attempt import Attempt
from answerbus.budget import AccountState
from answerbus.dead_letter import (
    AnswerTooLarge,
    BudgetExhausted,
    Cause,
    DeadLetter,
)
from answerbus.event import Event
from answerbus.limits import ENVELOPE_EXTRA_BYTES_MAX, RECORD_BYTES_MAX
from answerbus.outcome import RetryRequest
from answerbus.private.ledger import ClosedOutcome, LaneRecord, Watched
from answerbus.topics import TOOL_RESULTS, Topic
from answerbus.trace import Trace
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.budget.account import Account, Spend
from services.worker.core.budget.audit import chain, give_back
from services.worker.core.budget.ledger import Reserved, closed_record
from services.worker.core.outcome import events
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision, NextStep, Wait, attempt_outcome
from services.worker.core.request.ticket import Ticket
from services.worker.lane.state import records
from services.worker.lane.state.record_admission import LaneWrite, RecordAdmission
from services.worker.ports import LateRecord, Outgoing, OutRecord

VALUE_BYTES_MAX = RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX  # leaves room for key and headers
# Near the end of the ledger a lane's record is found soon (answerbus.client.layout), and retention
# never takes it away while the lane is open.
RENEWED_AFTER = timedelta(minutes=10)


@dataclass(slots=True, kw_only=True)
class LaneState(RecordAdmission):
    """The state of one open lane. Nothing here waits; a lost lane throws its state away."""

    worker: str
    watched: Watched | None = None

    def spend(
        self, ticket: Ticket, plan: Plan, prompt: Prompt, now: datetime
    ) -> tuple[Spend, LaneWrite] | Reserved | BudgetExhausted:
        """Charge one attempt, if the account allows it; who is to wait for that is set aside."""
        cost = plan.worst_cost(prompt)
        spend = self.ledger.spend(ticket.request, prompt.tokens_max, cost, now)
        if isinstance(spend, Reserved):
            self.queue.wait_for_funds(ticket, now)
            return spend
        self.queue.fund(ticket.request.account_id)
        if isinstance(spend, BudgetExhausted):
            return spend
        return spend, self.writing(self._account(ticket))

    def account_after(self, call: Call) -> AccountState:
        """The account as it will be once the call is settled, which `commit` does."""
        return self.ledger.state_after(call.spend, call.usage, counted=call.is_counted)

    def commit(self, call: Call, decision: Decision, now: datetime) -> tuple[Decision, LaneWrite]:
        """Write down what becomes of a call; `apply_decision` follows once that is committed.

        An outcome that no record can hold becomes a dead letter, which is given instead.
        """
        ticket = call.ticket
        account = self.ledger.settle(call.spend, call.usage, now, counted=call.is_counted)
        self.queue.fund(account.id)
        decision, written = self._outcome(call, decision, account, now)
        if call.is_counted and self.suspects.clear(ticket.request.request_id):
            written.append(self._lane_record(now))
        outcome, trace = attempt_outcome(decision), call.trace(self.worker)
        attempt = chain(account, call.spend, outcome, call.failure, trace, counted=call.is_counted)
        written.append(records.attempt_record(attempt, ticket.incoming_trace, self.partition))
        match decision:
            case Wait():
                return decision, self.writing(*written, self._account(ticket))
            case NextStep(step=step):
                taken = self.runs.take_step(call, step, account.state, now)
                return decision, self.writing(*written, *taken, *self._goes_on(ticket))
            case RetryRequest():
                self._release_offset(ticket)
                return decision, self.writing(*written, self._account(ticket))
            case _:
                return decision, self._terminal(ticket, decision.kind, now, *written)

    def _outcome(
        self, call: Call, decision: Decision, account: Account, now: datetime
    ) -> tuple[Decision, list[OutRecord]]:
        if isinstance(decision, Wait | NextStep):
            return decision, []
        record = records.outcome_record(decision, call.ticket, self.partition)
        if len(record.value or b"") > VALUE_BYTES_MAX:
            prior, cause = call.ticket.prior, AnswerTooLarge()
            decision = events.dead_letter(call, prior, cause, account.state, now)
            record = records.outcome_record(decision, call.ticket, self.partition)
        return decision, [record]

    def release(self, ticket: Ticket, spend: Spend, now: datetime) -> LaneWrite:
        """Give back a spend that was not used."""
        attempt = give_back(self.ledger, spend, now, self.worker)
        self.queue.fund(spend.account_id)
        record = records.attempt_record(attempt, ticket.incoming_trace, self.partition)
        return self.writing(record, self._account(ticket))

    def dead_letter(
        self, ticket: Ticket, cause: Cause, now: datetime
    ) -> tuple[DeadLetter, LaneWrite]:
        """End a request without another call."""
        account = self.ledger.account(ticket.request, now)
        letter = events.dead_letter_without_call(ticket, cause, account.state, now)
        return letter, self._terminal(
            ticket, letter.kind, now, records.outcome_record(letter, ticket, self.partition)
        )

    def apply_decision(self, ticket: Ticket, decision: Decision) -> None:
        """Let a committed decision take effect on the queue."""
        match decision:
            case Wait():
                ticket.waits += 1
            case NextStep():
                ticket.prior, ticket.waits = (), 0
                ticket.in_retries, ticket.offset = False, None
                self.queue.hold(ticket, ticket.deadline)
                self.release_if_answered(ticket)
                self._end_if_cancelled(ticket)
            case RetryRequest():
                ticket.prior, ticket.waits = decision.prior, decision.waits
                ticket.in_retries, ticket.offset = True, None
                self.queue.hold(ticket, decision.not_before)
                self._end_if_cancelled(ticket)
            case _:
                self.queue.finish(ticket)

    def release_if_answered(self, ticket: Ticket) -> None:
        """Let a run go on whose calls have all ended; while its step is committed, after that."""
        if ticket.run and not ticket.run.open:
            self.queue.release(ticket)

    def _end_if_cancelled(self, ticket: Ticket) -> None:
        """A cancellation came while its call was settled."""
        if ticket.cancelled:
            self.runs.stopped.append(ticket)

    def advance(self, topic: Topic, position: int) -> None:
        """All before `position` of a topic that speaks to runs is applied."""
        name = "results_at" if topic is TOOL_RESULTS else "controls_at"
        if self.ledger.lane:
            self.ledger.lane = self.ledger.lane.model_copy(update={name: position})

    def position_record(self, now: datetime) -> OutRecord:
        """The lane's record, which says how far that is."""
        return self._lane_record(now)

    def opening_records(
        self, lane: LaneRecord, left_over: list[Attempt], traces: Mapping[str, Trace]
    ) -> LaneWrite:
        """The first transaction of an open lane; `traces` are of requests, as far as known."""
        self.ledger.lane = lane
        lane_record = self._lane_record(lane.at)
        accounts = dict.fromkeys(attempt.account_id for attempt in left_over)  # in this order
        return self.writing(
            *(
                records.attempt_record(a, traces.get(a.request_id), self.partition)
                for a in left_over
            ),
            *(self._account_of(account) for account in accounts),
            lane_record,
        )

    def progress_record(self, now: datetime) -> OutRecord | None:
        """The lane's record without its failed openings, if it has any."""
        lane = self.ledger.lane
        if lane is None or lane.openings_without_progress == 0:
            return None
        self.ledger.lane = lane.model_copy(update={"openings_without_progress": 0})
        return self._lane_record(now)

    def closing_record(self, now: datetime) -> OutRecord | None:
        """The lane's record without failed openings and marks, if it has any."""
        self.watched = None
        is_marked = self.ledger.lane is not None and self.ledger.lane.watched is not None
        return self.progress_record(now) or (self._lane_record(now) if is_marked else None)

    def ownership_record(self, now: datetime) -> LaneWrite:
        """A write of no consequence that only the rightful owner of the partition can commit."""
        return self.writing(self._lane_record(now))

    def pack_ids(self, now: datetime) -> LaneWrite | None:
        """The next step by which closed ids that stand singly in the ledger become chunks there."""
        self.ledger.forget(now, self.watermark.committable)
        packed = self.ledger.closed.pack(now)
        written = (
            records.ledger_tombstone(key, self.partition) if chunk is None else self._record(chunk)
            for key, chunk in packed
        )
        return self.writing(*written) if packed else None

    def _terminal(
        self, ticket: Ticket, outcome: ClosedOutcome, now: datetime, *written: OutRecord
    ) -> LaneWrite:
        """All that ends a request, beside the event that was `written`."""
        closed = closed_record(
            ticket.request.request_id,
            ticket.request.workflow_id,
            ticket.body_digest,
            outcome,
            self._position_of(ticket),
            now,
        )
        self.ledger.close(closed, ticket.request.account_id)
        self.queue.fund(ticket.request.account_id)
        self.suspects.clear(ticket.request.request_id)
        self._release_offset(ticket)
        ended = (
            [records.retry_tombstone(ticket.request.request_id, self.partition)]
            if ticket.in_retries
            else []
        )
        if ticket.run or ticket.cancelled:
            ended += self.runs.end(ticket, now)
        progress = self.progress_record(now)
        return self.writing(
            *written,
            *ended,
            self._account(ticket),
            self._record(closed),
            *([progress] if progress else []),
        )

    def _goes_on(self, ticket: Ticket) -> Iterator[Outgoing]:
        """A run is known by its own records: offset and entry of its request are not needed."""
        self._release_offset(ticket)
        if ticket.in_retries:
            yield records.retry_tombstone(ticket.request.request_id, self.partition)
        yield self._account(ticket)

    def _position_of(self, ticket: Ticket) -> int:
        """The offset in this partition up to which the ticket's record may be delivered again."""
        if ticket.offset is not None:
            return ticket.offset
        position = self.watermark.position  # a forwarded record stands somewhere below it
        ours = ticket.origin.partition == self.partition
        return min(ticket.origin.offset, position) if ours else position

    def _release_offset(self, ticket: Ticket) -> None:
        if ticket.offset is not None:
            self.watermark.finish(ticket.offset)

    def _account(self, ticket: Ticket) -> LateRecord:
        return self._account_of(ticket.request.account_id)

    def _account_of(self, account_id: str) -> LateRecord:
        return records.account_record(self.ledger.accounts[account_id], self.partition)

    def _lane_record(self, now: datetime) -> OutRecord:
        lane = self.ledger.lane
        if lane is None:
            raise RuntimeError("a lane has a record once it was opened")
        changes = {
            "at": now,
            "suspects": self.suspects.listed(),
            "suspect_record": self.suspects.record,
            "watched": self.watched,
        }
        self.ledger.lane = lane.model_copy(update=changes)
        return self._record(self.ledger.lane)

    def _record(self, event: Event) -> OutRecord:
        return records.event_record(event, self.partition)


def refreshed_lane_record(lane_state: LaneState, now: datetime) -> LaneWrite | None:
    """The lane's record again, if it is old: it says how many partitions the deployment has."""
    lane = lane_state.ledger.lane
    return lane_state.ownership_record(now) if lane and now - lane.at > RENEWED_AFTER else None
