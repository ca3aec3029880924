"""How soon members on the protocol of KIP-848 hear of each other, which is the broker's to say."""

from collections.abc import Mapping

SESSION_MS = 45_000  # both are a broker's defaults, and it takes no less by default
HEARTBEAT_MS = 5_000


def heartbeats(every_ms: int, session_ms: int = SESSION_MS) -> Mapping[str, str]:
    """Properties of a broker."""
    return {
        "group.consumer.min.heartbeat.interval.ms": str(every_ms),
        "group.consumer.heartbeat.interval.ms": str(every_ms),
        "group.consumer.min.session.timeout.ms": str(session_ms),
        "group.consumer.session.timeout.ms": str(session_ms),
    }
