"""Checks that a broker compacts the topics that need it: state is the last record of each key."""

from collections.abc import Mapping

from answerbus.topics import Topic
from services.doctor.findings.finding import Finding
from services.topics.planning.plan import Found

ABOUT = "compaction"
_POLICY, _COMPACT = "cleanup.policy", "compact"


def compaction_finding(topics: Mapping[Topic, Found]) -> Finding:
    """Of the topics whose settings can be seen."""
    compacted = [topic for topic in topics if _COMPACT in topic.settings().get(_POLICY, "")]
    lost = [topic.name for topic in compacted if _COMPACT not in _in_force(topics[topic])]
    names = ", ".join(lost or [topic.name for topic in compacted])
    if lost:
        text = (
            f"the broker does not compact {names}, where the last record of each key is state that "
            "must be kept: run `answerbus topics apply`; a broker that leaves it so cannot be used"
        )
        return Finding(ABOUT, "wrong", text)
    return Finding(ABOUT, "ok", f"the broker compacts {names}")


def _in_force(found: Found) -> str:
    return found.in_force.get(_POLICY, "")
