"""Ids for requests: UUIDs of version 7, which sort by creation time."""

import secrets
import time
from uuid import UUID

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
