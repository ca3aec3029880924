"""Reads the status of a profile from a worker's `/ready`, which may contain anything; pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class ProfileStatus:
    """What workers say of a profile; `problem` is one word, None for a healthy one.

    `text` may name servers, and is for operators. `requests` are those in the workers' hands,
    `oldest_ms` is when the oldest was published; both times are in ms since 1970.
    """

    name: str
    problem: str | None = None
    text: str = ""
    since_ms: int | None = None
    requests: int = 0
    oldest_ms: int | None = None


def profile_status(name: str, details: object, text: object) -> ProfileStatus:
    """Of one worker: its details, and its sentence, which older workers alone have."""
    fields = details if isinstance(details, dict) else {}
    problem, requests = fields.get("problem"), fields.get("requests")
    return ProfileStatus(
        name,
        problem if isinstance(problem, str) else "unhealthy" if text else None,
        text if isinstance(text, str) else "",
        _milliseconds(fields.get("since")),
        requests if isinstance(requests, int) and requests > 0 else 0,
        _milliseconds(fields.get("oldest")),
    )


def merged(one: ProfileStatus, other: ProfileStatus) -> ProfileStatus:
    """Of two workers: the profile is unhealthy if it is so at one of them."""
    first = one if one.problem else other
    return replace(
        first,
        since_ms=_earliest(one.since_ms, other.since_ms),
        requests=one.requests + other.requests,
        oldest_ms=_earliest(one.oldest_ms, other.oldest_ms),
    )


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((at_ms for at_ms in (one, other) if at_ms is not None), default=None)


def _milliseconds(value: object) -> int | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return int(at.astimezone(UTC).timestamp() * 1000) if at else None
    except (ValueError, OverflowError):
        return None
