"""Formats 0 and 1, which only brokers before Kafka 0.11 wrote."""

import tracemalloc
from itertools import islice

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from answerbus.client.records.poll_time_budget import SHARE_BYTES_MIN, PollTimeBudget
from answerbus.client.records.unreadable import Unreadable
from tests.contracts.client.records.fetched import read, reading
from tests.fuzz.batches import Codec

FORMATS = [(0, Codec.NONE), (0, Codec.GZIP), (0, Codec.SNAPPY)]
FORMATS += [(1, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)]


def message_set(magic: int, codec: Codec, values: list[bytes]) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=100_000)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1_000, key=b"k", value=value)
    return bytes(builder.build())


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_messages_are_read_as_by_aiokafka(magic: int, codec: Codec) -> None:
    values = [b"a", b"b", b"c"]
    data = bytearray(message_set(magic, codec, values))
    if codec:
        data[:8] = (2).to_bytes(8, "big")  # a broker gives the wrapper the offset of the last
    found = read(bytes(data))

    assert [(one.offset, one.key, one.value) for one in found] == [
        (0, b"k", b"a"),
        (1, b"k", b"b"),
        (2, b"k", b"c"),
    ]
    assert [one.timestamp for one in found] == [1_000 if magic else -1] * 3


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_what_is_cut_or_broken_stands_as_unreadable(magic: int, codec: Codec) -> None:
    sound = message_set(magic, codec, [b"a" * 50])
    for at in range(12, len(sound)):
        broken = bytearray(sound)
        broken[at] ^= 0xFF
        assert all(isinstance(one, Unreadable) for one in read(bytes(broken))), at


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_large_wrapper_is_held_in_parts(codec: Codec) -> None:
    count = 4_000
    messages = bytearray(large_message_set(codec, [b"%5d" % n * 100 for n in range(count)]))
    messages[:8] = (count - 1).to_bytes(8, "big")
    allowance = PollTimeBudget()
    reader = reading(bytes(messages), allowance=allowance)
    tracemalloc.start()
    values: list[int] = []
    held: list[int] = []
    while len(values) < count:
        allowance.renew(256)
        given = [one.value or b"" for one in islice(reader, 50)]
        held.append(tracemalloc.get_traced_memory()[0])
        values += [int(value[:5]) for value in given]
    tracemalloc.stop()

    assert values == list(range(count))
    assert max(held) < len(messages) + SHARE_BYTES_MIN + 50 * 1_000 + 500_000


def large_message_set(codec: Codec, values: list[bytes]) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=codec, batch_size=2**24)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1_000, key=b"k", value=value)
    return bytes(builder.build())
