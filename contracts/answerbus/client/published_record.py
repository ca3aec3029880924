"""The record that a client published, and whether an outcome under its id is its own."""

from dataclasses import dataclass

from pydantic_core import from_json

from answerbus.canonical_json import canonical_digest
from answerbus.client.follow_up import is_follow_up
from answerbus.dead_letter import ConflictingId, DeadLetter
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.wire import bytes_digest


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """A request as its client published it; no other has its id, if that was made just now."""

    value: bytes
    has_new_id: bool = False

    @property
    def body_digest(self) -> str:
        """As outcomes name it."""
        return canonical_digest(from_json(self.value))

    def has_digest_of(self, outcome: AnyOutcome) -> bool:
        """Whether the outcome names the body of this record."""
        return outcome.body_digest is not None and outcome.body_digest == self.body_digest


def ends_request(outcome: AnyOutcome, own: PublishedRecord | None = None) -> bool:
    """Whether it is the outcome of its request, or of the client's own record.

    A request with another body under its id is another request, except for a replay, which
    operators may have edited, and for a follow-up: one that was published with other words of its
    validator goes on. A dead letter that keeps a record is about that record alone. Where the own
    record is not known, only a conflicting id ends nothing.
    """
    if not isinstance(outcome, DeadLetter) or outcome.raw is None:
        return own is None or not _is_of_another(outcome, own)
    is_conflict = isinstance(outcome.cause, ConflictingId)
    if own is None:
        return not is_conflict
    is_copy = is_conflict and is_follow_up(outcome.request_id or "")
    return outcome.raw.digest == bytes_digest(own.value) and not is_copy


def is_of_record(outcome: AnyOutcome) -> bool:
    """Whether it is about one invalid record: a request with its id may have another outcome.

    A conflicting id is final for the one record that it is about.
    """
    if not isinstance(outcome, DeadLetter) or outcome.raw is None:
        return False
    return not isinstance(outcome.cause, ConflictingId)


def _is_of_another(outcome: AnyOutcome, own: PublishedRecord) -> bool:
    if own.has_new_id or outcome.body_digest is None or is_follow_up(outcome.request_id or ""):
        return False
    match outcome:
        case Result() | UnvalidatedResult() | Refusal():
            is_replayed = outcome.replay is not None
        case DeadLetter():
            is_replayed = outcome.round > 0
    return not is_replayed and not own.has_digest_of(outcome)
