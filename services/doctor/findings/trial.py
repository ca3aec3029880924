"""Judges a broker by a trial transaction; pure."""

from dataclasses import dataclass

from services.doctor.findings.finding import Finding

ABOUT = "trial"


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """Of a record that was written and taken back: who set its time, and whether it was seen."""

    has_brokers_time: bool
    was_seen: bool


def trial_finding(facts: TrialFacts) -> Finding:
    """Without transactions that hold, none of our promises does."""
    if facts.was_seen:
        text = (
            "a transaction was aborted, and a reader of committed records saw its record: this "
            "broker has no transactions that can be relied on; use another"
        )
        return Finding(ABOUT, "wrong", text)
    if not facts.has_brokers_time:
        text = (
            "the broker did not set the time of a record itself: deadlines would count from the "
            "publishers' clocks; run `answerbus topics apply` (message.timestamp.type is "
            "LogAppendTime), or use a broker that takes this setting"
        )
        return Finding(ABOUT, "wrong", text)
    return Finding(
        ABOUT, "ok", "a transaction was aborted: no reader saw it, and its time is the broker's"
    )
