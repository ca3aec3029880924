"""The attempts of one account as a chain: each links to the one before it; pure."""

from dataclasses import dataclass, field

from answerbus.attempt import Attempt
from services.operators.audit.findings import Fault

ENDING = frozenset({"result", "unvalidated_result", "refusal", "dead_letter"})
_PRINT_BYTES = 8


@dataclass(slots=True)
class Total:
    """The charges of attempts in one unit; a lower bound where one does not report it."""

    used: int = 0
    is_exact: bool = True

    def add(self, *amounts: int | None, charged: int | None) -> None:
        """Charge one attempt; of what was not reported (None) it says what was `charged`."""
        known = [amount for amount in amounts if amount is not None]
        if len(known) == len(amounts):
            self.used += sum(known)
        else:
            self.is_exact = self.is_exact and charged is not None
            self.used += charged or 0

    def allows(self, charged: int) -> bool:
        """Whether the ledger may say so."""
        return charged == self.used if self.is_exact else charged >= self.used


@dataclass(slots=True)
class AttemptChain:
    """The state of an account after the attempts so far; little of those themselves is kept.

    `is_whole` says whether the first attempt is there: totals mean nothing without it. An account
    without an event for longer than `memory_ms` starts again.
    """

    memory_ms: float
    is_whole: bool = True
    head: str | None = None
    attempts: int = 0
    tokens: Total = field(default_factory=Total)
    micro_usd: Total = field(default_factory=Total)
    numbers: dict[str, int] = field(default_factory=dict)  # of requests that have not ended
    is_broken: bool = False
    _at_ms: int = 0
    _prints: bytearray = field(default_factory=bytearray)

    def follow(
        self, attempt: Attempt, at_ms: int, *, was_cut: bool, asked_again: bool
    ) -> Fault | None:
        """Add the next attempt, whose own hash is right, or say why it does not follow.

        `was_cut`: the topic does not reach back to its beginning. `asked_again`: the request may
        have ended without an attempt, and its id may be used again.
        """
        fault = self._link(attempt, at_ms, was_cut=was_cut)
        fault = fault or self._number(attempt, asked_again=asked_again)
        if fault:
            return fault
        self.head, self._at_ms = attempt.hash, at_ms
        self._prints += hash_print(attempt.hash)
        self.micro_usd.used += attempt.tools_micro_usd
        if attempt.counted:
            self.attempts += 1
            self._charge(attempt)
        return None

    def spent_otherwise(self, attempts: int, tokens: int, micro_usd: int) -> str | None:
        """The charges that should have been reported so far; None if they are right."""
        if not self.is_whole:
            return None
        right = self.tokens.allows(tokens) and self.micro_usd.allows(micro_usd)
        if right and attempts == self.attempts:
            return None
        at_least = "" if self.tokens.is_exact and self.micro_usd.is_exact else "at least "
        return (
            f"{self.attempts} attempts, {at_least}{self.tokens.used} tokens and "
            f"{self.micro_usd.used} micro-USD, not {attempts}, {tokens} and {micro_usd}"
        )

    def _charge(self, attempt: Attempt) -> None:
        usage, charged = attempt.usage, attempt.charged
        tokens, micro_usd = (charged.tokens, charged.micro_usd) if charged else (None, None)
        self.tokens.add(usage.input_tokens, usage.output_tokens, charged=tokens)
        self.micro_usd.add(usage.micro_usd, charged=micro_usd)

    def _link(self, attempt: Attempt, at_ms: int, *, was_cut: bool) -> Fault | None:
        if attempt.previous == self.head:
            return None  # and a copy of one that was there never follows the last
        if self._has(attempt.hash):
            return "twice", "this very attempt once"
        if attempt.previous is None and at_ms - self._at_ms > self.memory_ms:
            self._start_again()
            return None
        if self.head is None and was_cut:
            self.is_whole = False
            return None
        return "link", f"`previous` to be {self.head or 'null'}, the attempt before it"

    def _number(self, attempt: Attempt, *, asked_again: bool) -> Fault | None:
        request_id, number = attempt.request_id, attempt.attempt
        last = self.numbers.get(request_id)
        expected = 1 if last is None else last + 1
        begins = number == 1 and asked_again
        if number != expected and not begins and (self.is_whole or last is not None):
            return "number", f"attempt {expected} of {request_id}"
        if attempt.outcome in ENDING:
            self.numbers.pop(request_id, None)
        else:
            self.numbers[request_id] = number
        return None

    def _start_again(self) -> None:
        self.is_whole, self.attempts = True, 0
        self.tokens, self.micro_usd = Total(), Total()
        self.numbers.clear()

    def _has(self, digest: str) -> bool:
        """Whether an attempt of this hash was there already."""
        digest_print, at = hash_print(digest), -1
        while (at := self._prints.find(digest_print, at + 1)) >= 0:
            if at % _PRINT_BYTES == 0:
                return True
        return False


def hash_print(digest: str) -> bytes:
    """The beginning of a record's hash, enough to know the record again."""
    return bytes.fromhex(digest.removeprefix("sha256:")[: 2 * _PRINT_BYTES])
