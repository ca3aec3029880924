"""Records of one partition, judged as `answerbus audit verify` does it."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, REFUSALS, RESULTS, STEPS, Topic
from services.operators.audit.verification import ACCOUNT_MEMORY, Verification
from services.operators.audit.verified import Verified
from services.operators.records.stored import Stored

CLAIMING = (LEDGER, RESULTS, REFUSALS, DEAD_LETTERS)


def verified(
    records: Sequence[Stored],
    cut: Collection[Topic] = (),
    workflow_id: str | None = None,
    account_memory: timedelta = ACCOUNT_MEMORY,
) -> Verified:
    """What it says of accounts, steps and ends of calls."""
    verification = Verification(cut=cut, workflow_id=workflow_id, account_memory=account_memory)
    for topics, take in (
        (CLAIMING, verification.claim),
        ((ATTEMPTS,), verification.attempt),
        ((STEPS,), verification.step),
    ):
        for stored in records:
            if stored.topic in topics:
                take(stored)
    return verification.end()
