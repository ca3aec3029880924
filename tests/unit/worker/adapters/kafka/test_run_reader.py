"""Signals are applied in batches of bounded number and size; a flood of them holds up no other."""

from collections.abc import Sequence

from aiokafka import TopicPartition

from services.worker.adapters.kafka.run_reader import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    BATCH_VALUES_MAX,
    SignalBatches,
)
from tests.unit.worker.adapters.kafka.test_intake import record

PLACE = TopicPartition("tool-results", 0)
ONE_POLL = 500


def offsets_of(batches: SignalBatches, values: Sequence[bytes]) -> list[list[int]]:
    records = [record(PLACE, offset, value) for offset, value in enumerate(values)]
    return [[it.offset for it in together] for together in batches.split(PLACE, records)]


def test_many_small_records_are_divided_by_their_number() -> None:
    found = offsets_of(SignalBatches(), [b"{}"] * ONE_POLL)
    assert [len(together) for together in found] == [BATCH_RECORDS_MAX] * 10
    assert [offset for together in found for offset in together] == list(range(ONE_POLL))


def test_large_records_are_divided_by_their_bytes() -> None:
    large = bytes(BATCH_BYTES_MAX // 2 + 1)
    assert offsets_of(SignalBatches(), [large, large, b"", b"", large]) == [[0], [1, 2, 3], [4]]


def test_records_of_many_values_are_divided_by_these() -> None:
    """To apply a result takes time by its values: 50 of 17,000 each held the loop for 0.7 s."""
    many = b"[" + b"0," * (BATCH_VALUES_MAX // 2) + b"0]"
    assert offsets_of(SignalBatches(), [b"[0,0]", many, many, b"[]", many]) == [[0, 1], [2, 3], [4]]


def test_what_failed_together_goes_one_by_one_and_then_on() -> None:
    batches = SignalBatches()
    batches.blame(PLACE, [record(PLACE, 0), record(PLACE, 1)])
    assert offsets_of(batches, [b"{}"] * 4) == [[0], [1], [2, 3]]
