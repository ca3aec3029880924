"""G2: a closed id whose own record in the ledger was ended is in a chunk, with its body."""

import base64
import hashlib
from collections.abc import Iterator
from datetime import timedelta

from tests.chaos.audit.history import Event, History, Violation

REMEMBERED = timedelta(hours=24)  # after that it may be forgotten
PREFIX = b"closed:"
KEY_BYTES, REST_BYTES, BODY_HEX = 8, 12, 16  # docs/private-records.md, `closed_ids`


def check(history: History) -> Iterator[Violation]:
    """Each null value under the key of a closed id. What was compacted away proves nothing."""
    if not history.is_whole:
        return
    packed = {
        (event.record.partition, entry)
        for event in history.events["ledger"]
        if event.body["kind"] == "closed_ids"
        for entry in _entries(event)
    }
    singles = {(e.record.partition, e.record.key): e for e in history.events["ledger"]}
    for record in history.records:
        key = record.key or b""
        if record.topic != "ledger" or record.value is not None or not key.startswith(PREFIX):
            continue
        single = singles.get((record.partition, key))
        if single is None:
            yield Violation("G2", record.where, "it ends a closed id that was not closed here")
        elif (
            record.timestamp - single.record.timestamp < REMEMBERED
            and (record.partition, _packed(single)) not in packed
        ):
            yield Violation("G2", record.where, "it ends a closed id that no chunk has")


def _entries(chunk: Event) -> Iterator[bytes]:
    keys, rests = (_bytes(chunk.body[column]) for column in ("keys", "rests"))
    for at in range(len(keys) // KEY_BYTES):
        key = keys[at * KEY_BYTES : (at + 1) * KEY_BYTES]
        yield key + rests[at * REST_BYTES : (at + 1) * REST_BYTES]


def _bytes(column: str) -> bytes:
    return base64.urlsafe_b64decode(column + "=" * (-len(column) % 4))


def _packed(single: Event) -> bytes:
    name = (single.record.key or b"").removeprefix(PREFIX)
    body = single.body["body_digest"].removeprefix("sha256:")
    id_bytes = KEY_BYTES + REST_BYTES - BODY_HEX // 2
    return hashlib.sha256(name).digest()[:id_bytes] + bytes.fromhex(body[:BODY_HEX])
