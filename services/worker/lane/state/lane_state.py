"""The state of a lane: changes to ledger, queue and watermark return the records to write."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from answerbus.budget import AccountState, Usage
from answerbus.dead_letter import AnswerTooLarge, BudgetExhausted, Cancelled, Cause, DeadLetter
from answerbus.limits import ENVELOPE_EXTRA_BYTES_MAX, RECORD_BYTES_MAX
from answerbus.outcome import RetryRequest
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.budget.account import Account, Spend
from services.worker.core.budget.audit import chain, give_back
from services.worker.core.budget.ledger import Reserved, closed_record
from services.worker.core.outcome import events
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision, NextStep, Wait, attempt_outcome
from services.worker.core.request.ticket import Ticket
from services.worker.core.run.children import ChildOutcome, Ended
from services.worker.core.run.composition import ComputedStep
from services.worker.lane.state import records
from services.worker.lane.state.record_admission import LaneWrite
from services.worker.lane.state.recorded_lane import RecordedLane
from services.worker.ports import LateRecord, Outgoing, OutRecord

CALL_ENDED = Cancelled(by="answerbus", reason="the tool call that asked for it has ended")
FREE = Usage()
VALUE_BYTES_MAX = RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX  # leaves room for key and headers


@dataclass(slots=True, kw_only=True)
class LaneState(RecordedLane):
    """The state of one open lane. Nothing here waits; a lost lane throws its state away."""

    def spend(
        self, ticket: Ticket, plan: Plan, prompt: Prompt, now: datetime
    ) -> tuple[Spend, LaneWrite] | Reserved | BudgetExhausted:
        """Charge one attempt, if the account allows it; who is to wait for that is set aside."""
        cost = plan.worst_cost(prompt)
        account = self.ledger.account(ticket.request, now)
        allowance = self.queue.children.allowance(ticket, account)
        spend = self.ledger.spend(ticket.request, prompt.tokens_max, cost, now, allowance)
        if isinstance(spend, Reserved):
            self.queue.wait_for_funds(ticket, now)
            return spend
        if ticket.run:  # a run that may not spend ends, and needs its floor no more
            is_spent = isinstance(spend, Spend)
            self.queue.children.keep(ticket, account, floor=is_spent and plan.may_go_on)
        self.queue.fund(ticket.request.account_id)
        if isinstance(spend, BudgetExhausted):
            return spend
        return spend, self.writing(self._account(ticket))

    def account_after(self, call: Call) -> AccountState:
        """The account as it will be once the call is settled, which `commit` does."""
        return self.ledger.state_after(call.spend, call.usage, counted=call.is_counted)

    def attempts_left(self, ticket: Ticket, now: datetime, call: Call | None = None) -> int:
        """How many attempts a request has left once `call` is settled (see OpenChildren)."""
        left = self.queue.children.attempts_left(ticket, self.ledger.account(ticket.request, now))
        return left - 1 if call and call.is_counted else left

    def is_last_attempt(self, ticket: Ticket, now: datetime) -> bool:
        """Whether it may make this attempt alone: then no result of a tool could be told."""
        account = self.ledger.account(ticket.request, now)
        return self.queue.children.attempts_now(ticket, account) - len(account.in_flight) <= 1

    def commit(self, call: Call, decision: Decision, now: datetime) -> tuple[Decision, LaneWrite]:
        """Write down the decision on a call; `apply_decision` follows once that is committed.

        An outcome that no record can hold becomes a dead letter, which is given instead.
        """
        ticket = call.ticket
        account = self.ledger.settle(call.spend, call.usage, now, counted=call.is_counted)
        self.queue.fund(account.id)
        decision, written = self._outcome(call, decision, account, now)
        if not call.is_counted:
            self.queue.children.uncounted(ticket, account)
        elif self.suspects.clear(ticket.key):
            written.append(self._lane_record(now))
        outcome, trace = attempt_outcome(decision), call.trace(self.worker)
        attempt = chain(account, call.spend, outcome, call.failure, trace, counted=call.is_counted)
        written.append(records.attempt_record(attempt, ticket.incoming_trace, self.partition))
        match decision:
            case Wait():
                return decision, self.writing(*written, self._account(ticket))
            case NextStep(step=step):
                left = self.queue.children.attempts_now(ticket, account) - len(account.in_flight)
                taken = self.runs.take_step(call, step, account.state, now, left)
                return decision, self.writing(*written, *taken, *self._goes_on(ticket))
            case RetryRequest():
                self._release_offset(ticket)
                if ticket.retry_key not in (None, written[0].key):  # of a version before
                    written += self._off_retries(ticket)
                return decision, self.writing(*written, self._account(ticket))
            case _:
                written += self.runs.selected(call, decision, account.state, now)
                return decision, self._terminal(ticket, decision, now, *written, last=call.usage)

    def take_computed(self, ticket: Ticket, computed: ComputedStep, now: datetime) -> LaneWrite:
        """Write down a step without a call; its children leave the run what its last one costs."""
        account = self.ledger.account(ticket.request, now)
        self.queue.children.keep(ticket, account, floor=True)
        taken = self.runs.take_computed(ticket, computed, account.state, now)
        return self.writing(*taken, *self._goes_on(ticket))

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
        account = self.ledger.account(ticket.request, now)
        self.queue.children.uncounted(ticket, account)
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
            ticket, letter, now, records.outcome_record(letter, ticket, self.partition)
        )

    def apply_decision(self, ticket: Ticket, decision: Decision) -> None:
        """Let a committed decision take effect on the queue."""
        match decision:
            case Wait():
                ticket.waits += 1
            case NextStep():
                ticket.prior, ticket.waits, ticket.used = (), 0, Usage()
                ticket.retry_key, ticket.offset = None, None
                self.queue.hold(ticket, ticket.deadline)
                self.release_if_answered(ticket)
                self._end_if_cancelled(ticket)
            case RetryRequest():
                ticket.prior, ticket.waits = decision.prior, decision.waits
                ticket.used = decision.used or Usage()
                ticket.retry_key, ticket.offset = ticket.key.record_key().encode(), None
                self.queue.hold(ticket, decision.not_before)
                self._end_if_cancelled(ticket)
            case _:
                self._finish(ticket)

    def _finish(self, ticket: Ticket) -> None:
        """The last child of a run lets it go on, or end."""
        if above := self.queue.finish(ticket):
            self.release_if_answered(above)
            self._end_if_cancelled(above)

    def release_if_answered(self, ticket: Ticket) -> None:
        """Let a run go on whose calls have all ended; while its step is committed, after that.

        A child ends with the call that asked for it, and before the run goes on.
        """
        self.stop_children(ticket)
        if ticket.run and not ticket.run.open and not self.queue.children.of(ticket):
            self.queue.release(ticket)

    def stop_children(self, ticket: Ticket) -> None:
        """End the children of a run whose calls have ended, and all below them."""
        for child in self.queue.children.of(ticket):
            parent = child.request.parent
            if parent and ticket.run and ticket.run.open_call(parent.call_id) is None:
                for one in (child, *self.queue.children.below(child)):
                    self.runs.stop(one, CALL_ENDED)

    def _end_if_cancelled(self, ticket: Ticket) -> None:
        """A cancellation came while its call was settled."""
        if ticket.cancelled:
            self.runs.stopped.append(ticket)

    def _terminal(
        self, ticket: Ticket, outcome: Ended, now: datetime, *written: OutRecord, last: Usage = FREE
    ) -> LaneWrite:
        """All that ends a request, beside the event `written`; `last` is what its call used."""
        joined = self._joined(ticket, outcome, last, now)
        closed = closed_record(
            ticket.request.request_id,
            ticket.request.workflow_id,
            ticket.body_digest,
            outcome.kind,
            self._position_of(ticket),
            now,
        )
        self.ledger.close(closed, ticket.request.account_id)
        self.queue.fund(ticket.request.account_id)
        self.suspects.clear(ticket.key)
        self._release_offset(ticket)
        ended = self._off_retries(ticket)
        if ticket.run or ticket.cancelled or ticket.request.parent:
            ended += self.runs.end(ticket, now)
        progress = self.progress_record(now)
        return self.writing(
            *written,
            *joined,
            *ended,
            self._account(ticket),
            self._record(closed),
            *([progress] if progress else []),
        )

    def _joined(
        self, ticket: Ticket, outcome: Ended, last: Usage, now: datetime
    ) -> list[OutRecord]:
        children, parent = self.queue.children, ticket.request.parent
        above = children.parent_of(ticket)
        if above is None or parent is None:
            return []
        spent = children.used(ticket, self.ledger.account(ticket.request, now))
        usage = outcome.run.usage if outcome.run else ticket.used.plus(last)
        ended = ChildOutcome(parent.call_id, outcome, spent, usage)
        return self.runs.child_ended(above, ended, now)

    def _goes_on(self, ticket: Ticket) -> Iterator[Outgoing]:
        """A run is known by its own records: offset and entry of its request are not needed."""
        self._release_offset(ticket)
        yield from self._off_retries(ticket)
        yield self._account(ticket)

    def _off_retries(self, ticket: Ticket) -> list[OutRecord]:
        """The end of what the retries topic has of it."""
        key = ticket.retry_key
        return [] if key is None else [records.retry_tombstone(key, self.partition)]

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
