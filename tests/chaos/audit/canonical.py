"""What the wire contract defines by a formula, written down once more: digests, owners, times."""

import hashlib
import json
from datetime import datetime
from typing import Any

import rfc8785

EXACT_INTEGER_MAX = 2**53 - 1  # RFC 8785 has no form for larger ones: they count by their digits


class NotStrictError(ValueError):
    """The text is not a JSON document as the contract reads JSON."""


def read_json(value: bytes | None) -> Any:
    """The value of a strict JSON document. Raises NotStrictError."""
    try:
        return json.loads(
            (value or b"").decode(), object_pairs_hook=_members, parse_constant=_constant
        )
    except (ValueError, RecursionError) as error:
        raise NotStrictError(str(error)) from error


def digest(value: Any) -> str:
    """SHA-256 over the RFC 8785 text of a JSON value."""
    return _sha256(rfc8785.dumps(_carried(value)))


def sorted_digest(value: Any) -> str:
    """SHA-256 over compact JSON with sorted names: how a published schema is named."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _sha256(text.encode())


def owner(workflow_id: str, partitions: int) -> int:
    """The partition that Kafka's own partitioner (murmur2) gives to a key."""
    return (_murmur2(workflow_id.encode()) & 0x7FFFFFFF) % partitions


def moment(text: str) -> datetime:
    """A time of an event."""
    return datetime.fromisoformat(text)


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _carried(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _carried(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_carried(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_INTEGER_MAX:
        return str(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise NotStrictError("a member name occurs twice")
    return members


def _constant(name: str) -> Any:
    raise NotStrictError(f"{name} is not a JSON number")


def _murmur2(data: bytes) -> int:
    def mixed(block: int) -> int:
        block = block * 0x5BD1E995 & 0xFFFFFFFF
        return (block ^ block >> 24) * 0x5BD1E995 & 0xFFFFFFFF

    state = 0x9747B28C ^ len(data)
    tail = len(data) % 4
    for start in range(0, len(data) - tail, 4):
        block = int.from_bytes(data[start : start + 4], "little")
        state = state * 0x5BD1E995 & 0xFFFFFFFF ^ mixed(block)
    if tail:
        state = (state ^ int.from_bytes(data[-tail:], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return state ^ state >> 15
