"""Verifies that attempts, ledger and outcomes of one partition agree; pure."""

from collections.abc import Collection, Iterator
from datetime import timedelta

from pydantic import ValidationError

from answerbus import json_text
from answerbus.account_id import belongs
from answerbus.attempt import Attempt
from answerbus.fail_fast import JsonReader
from answerbus.request_key import RequestKey
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, STEPS, TOPIC_OF_KIND, Topic
from services.operators.audit.attempt_chain import ENDING, AttemptChain
from services.operators.audit.claims import Balance, ClaimedSpending, Ended
from services.operators.audit.findings import AuditFinding, Fault, FindingKind
from services.operators.audit.step_verification import StepVerification
from services.operators.audit.verified import Verified
from services.operators.records.stored import RecordPosition, Stored
from services.text.digest import record_digest

_ATTEMPT = JsonReader.of(Attempt)
ACCOUNT_MEMORY = timedelta(milliseconds=LEDGER.retention_ms or 0)  # by default
# An attempt and its account are written in one transaction. What other brokers' clocks, and a
# transaction that lasts, may put between the times of the two is less.
LEDGER_LAG_MS_MAX = 600_000


class Verification:
    """Takes what the ledger and the terminals claim first, then the attempts in their order.

    In that order nothing that is written meanwhile looks like a break: a claim of an attempt has
    been read before it. `cut` are the topics that no longer reach back to their beginning, and
    `account_memory` is how long workers know an account after its last event.
    """

    def __init__(
        self,
        *,
        cut: Collection[Topic],
        workflow_id: str | None = None,
        account_memory: timedelta = ACCOUNT_MEMORY,
    ) -> None:
        self._cut, self._workflow_id = cut, workflow_id
        self._account_memory_ms = account_memory / timedelta(milliseconds=1)
        self._claims = ClaimedSpending(workflow_id)
        self._chains: dict[str, AttemptChain] = {}
        self._balances: dict[str, Balance] | None = None
        self._unread: set[str] = set()  # accounts whose head, as the ledger had it, is not read yet
        self._begins_at_ms: int | None = None
        self._ledger_at_ms: dict[int, int] = {}  # of the last record of each partition
        self._verified = Verified()
        self._steps = StepVerification(STEPS in cut, workflow_id)

    def claim(self, stored: Stored) -> None:
        """A record of the ledger or of a topic of outcomes; not after the first attempt."""
        if stored.topic is LEDGER:
            self._ledger_at_ms[stored.partition] = stored.at_ms
        self._claims.take(stored)

    def attempt(self, stored: Stored) -> None:
        """The next record of the attempts."""
        if self._begins_at_ms is None:
            self._begins_at_ms = stored.at_ms
        read = _read(stored)
        if isinstance(read, AuditFinding):
            self._note(read)
        elif self._workflow_id in (None, read[0].workflow_id):
            self._verified.attempts += 1
            self._judge(stored, *read)

    def step(self, stored: Stored) -> None:
        """The next record of the steps; not before the attempts that are there by now."""
        self._steps.take(stored)

    def is_settled(self) -> bool:
        """Whether everything that was claimed has been met; if not, more may be about to come."""
        self._known_balances()
        is_met = not self._unread and not any(self._unanswered())
        return is_met and self._steps.is_settled()

    def end(self) -> Verified:
        balances = self._known_balances()
        for found in self._claims.foreign:
            self._fault(found.account_id, found.kind, None, found.place, found.expected)
        self._verified.replays = self._claims.replays
        self._verified.breaks += self._claims.unreadable.values()
        self._verified.passed_by = self._claims.passed_by
        if DEAD_LETTERS in self._cut:  # an operator's record may be gone before its dead letter
            self._verified.replays.ignore(DEAD_LETTERS)
        for account_id in sorted(self._unread):
            self._head_is_missing(account_id, balances[account_id])
        for request, ended in self._unanswered():
            event_id = f"{request.request_id}.attempt.{ended.attempt}"
            expected = f"{event_id}, which became this {ended.kind}"
            self._fault(ended.account_id, "terminal", event_id, ended.place, expected)
        for request, run in self._claims.runs.items():
            self._steps.claim(request, run)
        begins_at_ms = self._begins_at_ms if ATTEMPTS in self._cut else None
        self._steps.end(attempts_begin_at_ms=begins_at_ms)
        self._verified.breaks += self._steps.findings
        self._verified.doubtful = self._steps.doubtful
        self._verified.steps, self._verified.runs = self._steps.steps, self._steps.runs
        chains = self._chains
        self._verified.accounts = len(chains)
        self._verified.begun_in_the_middle = sum(not chain.is_whole for chain in chains.values())
        self._verified.without_ledger = len(chains.keys() - balances.keys())
        self._verified.in_flight = sum(len(balance.in_flight) for balance in balances.values())
        return self._verified

    def _known_balances(self) -> dict[str, Balance]:
        if self._balances is None:
            self._balances = self._claims.balances()
            self._unread = {name for name, it in self._balances.items() if it.head is not None}
            for name, balance in self._balances.items():
                used = balance.spent.attempts + len(balance.in_flight)
                if used > balance.attempts_max:
                    expected = f"at most {balance.attempts_max} attempts, not {used}"
                    self._fault(name, "limit", None, balance.place, expected)
        return self._balances

    def _judge(self, stored: Stored, attempt: Attempt, computed: str) -> None:
        if attempt.outcome == "step":
            self._steps.became_step(attempt, stored)
        balance = self._known_balances().get(attempt.account_id)
        chain = self._chain(attempt.account_id)
        if chain.is_broken:
            return
        fault = _changed(attempt, computed) or _charged_elsewhere(attempt)
        fault = fault or chain.follow(
            attempt,
            stored.at_ms,
            was_cut=ATTEMPTS in self._cut,
            asked_again=self._claims.has_dead_letter(RequestKey.of(attempt)),
        )
        fault = fault or self._ended_otherwise(attempt, chain)
        if balance and attempt.account_id in self._unread:
            fault = fault or _balance_fault(attempt, chain, balance)
            if balance.head == attempt.hash:
                self._unread.discard(attempt.account_id)
        elif balance:
            fault = fault or self._unknown_to_ledger(stored.at_ms, balance)
        if fault:
            self._fault(attempt.account_id, fault[0], attempt.event_id, stored.place, fault[1])

    def _unknown_to_ledger(self, at_ms: int, balance: Balance) -> Fault | None:
        """An attempt after the ledger's head, unless it may have been written since."""
        newest_ms = self._ledger_at_ms[balance.place.partition] - LEDGER_LAG_MS_MAX
        if balance.head is None or at_ms >= newest_ms:  # without a head it may have started again
            return None
        return "head", f"no attempt after {balance.head}, the ledger's"

    def _ended_otherwise(self, attempt: Attempt, chain: AttemptChain) -> Fault | None:
        if attempt.outcome not in ENDING:
            return None
        ended = self._claims.answered(RequestKey.of(attempt), attempt.outcome, attempt.attempt)
        if ended is None:
            is_past = attempt.account_id in self._unread  # or it came after the terminals were read
            was_kept = TOPIC_OF_KIND[attempt.outcome] not in self._cut
            text = f"the {attempt.outcome} of {attempt.request_id}"
            return ("no_terminal", text) if is_past and was_kept else None
        if ended.account_id not in (None, attempt.account_id):
            return "account", f"{ended.account_id}, as its {attempt.outcome} says"
        spent = ended.spent
        claim = spent and chain.spent_otherwise(spent.attempts, spent.tokens, spent.micro_usd)
        return ("spent", f"its {attempt.outcome} to say {claim}") if claim else None

    def _unanswered(self) -> Iterator[tuple[RequestKey, Ended]]:
        """Outcomes that name an attempt which should have been read."""
        broken = {name for name, chain in self._chains.items() if chain.is_broken}
        for request, waiting in self._claims.terminals.items():
            for ended in waiting:
                was_read = ended.attempt is not None and not self._is_before_the_cut(ended.at_ms)
                if was_read and ended.account_id not in broken:
                    yield request, ended

    def _is_before_the_cut(self, at_ms: int) -> bool:
        begins = self._begins_at_ms
        return ATTEMPTS in self._cut and (begins is None or at_ms <= begins)

    def _head_is_missing(self, account_id: str, balance: Balance) -> None:
        chain = self._chains.get(account_id)
        if chain is None and ATTEMPTS in self._cut:
            return
        last = chain.head if chain else None
        expected = f"the ledger's {balance.head}; the last that is there is {last or 'none'}"
        self._fault(account_id, "head", None, balance.place, expected)

    def _fault(
        self,
        account_id: str | None,
        kind: FindingKind,
        event_id: str | None,
        place: RecordPosition,
        expected: str,
    ) -> None:
        """Note a break, unless the account has one already: one makes many others."""
        chain = self._chain(account_id) if account_id else None
        if chain is None or not chain.is_broken:
            self._note(AuditFinding(kind, account_id, event_id, place, expected))
        if account_id and chain:
            chain.is_broken = True
            self._unread.discard(account_id)

    def _chain(self, account_id: str) -> AttemptChain:
        return self._chains.setdefault(account_id, AttemptChain(self._account_memory_ms))

    def _note(self, found: AuditFinding) -> None:
        self._verified.breaks.append(found)


def _read(stored: Stored) -> tuple[Attempt, str] | AuditFinding:
    """The attempt, and the hash that its body has."""
    parsed = json_text.parse(stored.value or b"")
    try:
        attempt = _ATTEMPT.validate_json(stored.value or b"")
    except ValidationError as error:
        expected = f"an attempt ({error.error_count()} of its fields are not as they should be)"
        return AuditFinding("unreadable", None, None, stored.place, expected)
    if not isinstance(parsed, json_text.Parsed) or not isinstance(parsed.value, dict):
        return AuditFinding(
            "unreadable", attempt.account_id, attempt.event_id, stored.place, "strict JSON"
        )
    return attempt, record_digest(parsed.value)


def _changed(attempt: Attempt, computed: str) -> Fault | None:
    return None if attempt.hash == computed else ("changed", f"its hash to be {computed}")


def _charged_elsewhere(attempt: Attempt) -> Fault | None:
    if belongs(attempt.account_id, attempt.workflow_id):
        return None
    return "account", f"an account of {attempt.workflow_id}"


def _balance_fault(attempt: Attempt, chain: AttemptChain, balance: Balance) -> Fault | None:
    """Compares the ledger with the chain up to the ledger's own head."""
    if (attempt.request_id, attempt.attempt) in balance.in_flight:
        return "in_flight", f"the ledger to have settled {attempt.event_id}"
    if balance.head != attempt.hash:
        return None
    spent, micro_usd = balance.spent, balance.spent.micro_usd - balance.tools_micro_usd
    claim = chain.spent_otherwise(spent.attempts, spent.tokens, micro_usd)
    if claim:
        return "spent", f"the ledger to say {claim}"
    for request_id, used in balance.open:
        pending = (number for name, number in balance.in_flight if name == request_id)
        attempts = max(chain.numbers.get(request_id, 0), *pending, 0)
        if chain.is_whole and attempts != used:
            return "number", f"attempts of {request_id} up to {used}, as the ledger says"
    return None
