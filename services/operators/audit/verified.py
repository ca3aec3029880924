"""The verdict of a verification: what was looked at, and what is wrong with it."""

from dataclasses import dataclass, field

from answerbus.private.ledger import Skipped
from services.operators.audit.findings import AuditFinding
from services.operators.audit.replay_links import ReplayLinks
from services.operators.records.stored import RecordPosition


@dataclass(slots=True)
class Verified:
    """What was looked at, and the first break of each account that has one."""

    attempts: int = 0
    accounts: int = 0
    steps: int = 0
    runs: int = 0
    begun_in_the_middle: int = 0
    without_ledger: int = 0
    in_flight: int = 0
    breaks: list[AuditFinding] = field(default_factory=list)
    replays: ReplayLinks = field(default_factory=ReplayLinks)
    passed_by: dict[RecordPosition, Skipped] = field(default_factory=dict)
    doubtful: dict[RecordPosition, str] = field(default_factory=dict)  # approvals, and why

    def add(self, other: "Verified") -> None:
        self.attempts += other.attempts
        self.accounts += other.accounts
        self.steps += other.steps
        self.runs += other.runs
        self.begun_in_the_middle += other.begun_in_the_middle
        self.without_ledger += other.without_ledger
        self.in_flight += other.in_flight
        self.breaks += other.breaks
        self.replays.add(other.replays)
        self.passed_by.update(other.passed_by)
        self.doubtful.update(other.doubtful)
