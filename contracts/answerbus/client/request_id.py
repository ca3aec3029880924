"""Ids for requests: UUIDs of version 7, which sort by creation time."""

import secrets
import time
from uuid import UUID

from answerbus.request_key import RequestKey

RANDOM_BYTES = 10
NEW_MS = 5_000
_VERSION = 0x7 << 76
_VARIANT = 0x2 << 62
_FIXED_BITS = 0xF << 76 | 0x3 << 62


def uuid7(unix_ms: int, randomness: bytes) -> UUID:
    """The UUID (RFC 9562) of a moment in milliseconds since 1970 and of 10 random bytes."""
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a UUIDv7 takes {RANDOM_BYTES} random bytes")
    bits = int.from_bytes(unix_ms.to_bytes(6, "big") + randomness, "big")
    return UUID(int=bits & ~_FIXED_BITS | _VERSION | _VARIANT)


def new_id() -> str:
    """A UUIDv7 of this moment, for a request or a workflow."""
    return str(uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES)))


def is_new(request_id: str, now_ms: int) -> bool:
    """Whether the id is a UUIDv7 of the last seconds, which was hardly asked before."""
    try:
        made = UUID(request_id)
    except ValueError:
        return False
    return made.version == 7 and 0 <= now_ms - (made.int >> 80) < NEW_MS


class PublishedIds:
    """The requests that a client has published in the last seconds, as long as ids are new."""

    def __init__(self) -> None:
        self._published_at: dict[RequestKey, float] = {}

    def add(self, request: RequestKey) -> None:
        """To be called before it is published."""
        known, now = self._published_at, time.monotonic()
        while known and now - known[oldest := next(iter(known))] > NEW_MS / 1000:
            del known[oldest]
        known.setdefault(request, now)

    def is_first(self, request: RequestKey, now_ms: int) -> bool:
        """Whether hardly anybody has asked it before: its id is new, and not published here."""
        return request not in self._published_at and is_new(request.request_id, now_ms)
