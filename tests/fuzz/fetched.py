"""What was fetched of a partition: nothing raises, and each offset is told once, in order.

The first byte of an input says what a broker or a client would do with the rest: make the checksums
right (`SUMS`), pack the records of each batch as its attributes say (`PACK`), and where to begin.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from answerbus.client.records.batch import RECORDS_MAX, Record
from answerbus.client.records.head import HEAD_BYTES, Head
from answerbus.client.records.partition import BATCH_BYTES_MIN
from answerbus.client.records.unpacking import UNPACKED_BYTES_MAX
from tests.contracts.client.records.fetched import reading, stretch_of
from tests.cpu_time import cpu_time
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes, batch_of, packed
from tests.fuzz.damage import BYTES, DAMAGES
from tests.fuzz.target import Target

SUMS, PACK, FROM_SHIFT = 1, 2, 2
BATCHES_MAX = 4  # of an input, so that its time says what one batch takes
BATCH_S_MAX = 4.0  # of the process, with instrumented code
BEFORE_BYTES, MAGIC_AT, SUM_AT, SUMMED_AT = 12, 16, 17, 21  # the size does not count the first
ABORTED = [(7, 0)]  # a producer whose transactions do not count, and the first offset of one
BEHIND = 2**40  # an offset behind all that heads of a broker's batches say
GOOD = batch_bytes(Draft([Sent(b"good")]), BEHIND)


def check(data: bytes) -> None:
    how, rest = (data[:1] or b"\0")[0], data[1:]
    batches = [_finished(batch, how) for batch in _split(rest)][:BATCHES_MAX]
    offset = how >> FROM_SHIFT
    fetched = b"".join(batches)
    with cpu_time() as cpu:
        reader = reading(fetched, offset, ABORTED)
        found = list(reader)

    assert cpu.is_below(BATCH_S_MAX * max(1, len(batches)))
    assert len(found) <= RECORDS_MAX * len(batches)
    assert sum(map(_size, found)) <= (UNPACKED_BYTES_MAX + len(fetched)) * 2 * len(batches)
    whole = batches if _is_whole(batches) else batches[:-1]
    texts = [stretch_of(record) for record in found]
    assert all(stretch.start < stretch.stop for stretch in texts)
    assert all(one.stop <= other.start for one, other in pairwise(texts))
    assert not texts or offset < texts[0].stop
    assert not texts or texts[-1].stop <= reader.next_fetch_offset
    for promised in _promised(whole, offset):
        assert _covers(texts, promised), promised
    if reader.next_fetch_offset <= BEHIND and whole == batches:
        assert list(reading(fetched + GOOD, offset, ABORTED))[-1].value == b"good"


def _promised(batches: Sequence[bytes], offset: int) -> Iterator[range]:
    """The offsets of batches that say of themselves that they have a record for each of them."""
    at = offset
    for batch in batches:
        if batch[MAGIC_AT] != 2 or len(batch) < HEAD_BYTES:
            return  # what a head of another kind says is not for us to know
        head = Head.of(batch)
        is_whole = head.records == head.last_offset_delta + 1 > 0
        is_told = not (head.is_control or (head.is_transactional and head.producer_id >= 0))
        if is_whole and is_told and head.base_offset >= at:
            yield range(head.base_offset, head.end)
        at = max(at, head.end, head.base_offset + 1)  # an unreadable one is told as one offset


def _covers(reply: Sequence[range], promised: range) -> bool:
    at = promised.start
    for stretch in reply:
        if stretch.start <= at < stretch.stop:
            at = stretch.stop
    return at >= promised.stop


def _size(record: Record) -> int:
    headers = sum(len(name) + len(content or b"") for name, content in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _split(fetched: bytes) -> Iterator[bytes]:
    """The batches as their sizes say; what is behind the last whole one is no batch."""
    at = 0
    while at + BEFORE_BYTES + BATCH_BYTES_MIN <= len(fetched):
        end = at + BEFORE_BYTES + max(_size_of(fetched[at : at + BEFORE_BYTES]), BATCH_BYTES_MIN)
        yield fetched[at : min(end, len(fetched))]
        at = end


def _is_whole(batches: Sequence[bytes]) -> bool:
    """Whether the last one is not cut: behind it another may stand."""
    return not batches or len(batches[-1]) == BEFORE_BYTES + max(
        _size_of(batches[-1]), BATCH_BYTES_MIN
    )


def _size_of(batch: bytes) -> int:
    size: int = struct.unpack_from(">i", batch, 8)[0]
    return size


def _finished(batch: bytes, how: int) -> bytes:
    """The batch as its input asks for."""
    if batch[MAGIC_AT] != 2 or len(batch) < HEAD_BYTES:
        return batch
    codec = batch[SUMMED_AT + 1] & 7
    if how & PACK and codec in set(Codec):
        batch = batch[:HEAD_BYTES] + packed(Codec(codec), batch[HEAD_BYTES:])
        batch = batch[:8] + struct.pack(">i", len(batch) - BEFORE_BYTES) + batch[BEFORE_BYTES:]
    if how & SUMS:
        crc = struct.pack(">I", calc_crc32c(batch[SUMMED_AT:]))
        batch = batch[:SUM_AT] + crc + batch[SUMMED_AT:]
    return batch


def seeds() -> Sequence[bytes]:
    """For each codec: sound and damaged batches, packed here and by the check, and transactions."""
    found = []
    for codec in Codec:
        draft = Draft([Sent(b"one", b"key", [(b"name", b"text")]), Sent(None), Sent(b"")], codec)
        found += [bytes([SUMS]) + batch_bytes(draft), bytes([SUMS | 4]) + batch_bytes(draft)]
        plain = bytearray(batch_bytes(replace(draft, codec=Codec.NONE)))
        plain[SUMMED_AT + 1] |= codec
        found.append(bytes([SUMS | PACK]) + bytes(plain))
        found.append(bytes([SUMS | PACK | 8]) + bytes(plain) + batch_bytes(draft, 3))
        found += [b"\0" + _legacy(magic, codec) for magic in (0, 1) if magic or codec < Codec.LZ4]
        found.append(bytes([SUMS]) + _transactions(codec))
    damaged = [batch_of(seed, [b"1", b"2"]) for seed in range(2 * len([*DAMAGES, *BYTES]))]
    return [*found, *(b"\0" + raw.data for raw in damaged if len(raw.data) < 2_000)]


def _legacy(magic: int, codec: Codec) -> bytes:
    if codec is Codec.ZSTD:
        return b""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1_000)
    for offset in range(3):
        builder.append(offset, timestamp=1_000, key=b"k", value=b"v")
    return bytes(builder.build())


def _transactions(codec: Codec) -> bytes:
    theirs = Draft([Sent(b"a")], codec, 0x10, producer_id=ABORTED[0][0], producer_epoch=0)
    marker = Sent(b"\0" * 6, key=struct.pack(">hh", 0, 0))
    abort = replace(theirs, records=[marker], attributes=0x30, codec=Codec.NONE)
    batches = (theirs, replace(theirs, producer_id=8), abort, theirs)
    return b"".join(batch_bytes(draft, offset) for offset, draft in enumerate(batches))


TARGET = Target("fetched", check, seeds)
