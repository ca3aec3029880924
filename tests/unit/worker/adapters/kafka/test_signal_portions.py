"""Signals are applied in portions of bounded number and size; a flood of them holds up no other."""

from collections.abc import Sequence

from aiokafka import TopicPartition

from services.worker.adapters.kafka.signal_portions import (
    PORTION_BYTES_MAX,
    PORTION_RECORDS_MAX,
    SignalPortions,
)
from tests.unit.worker.adapters.kafka.test_intake import record

PLACE = TopicPartition("tool-results", 0)
ONE_POLL = 500


def offsets_of(portions: SignalPortions, values: Sequence[bytes]) -> list[list[int]]:
    records = [record(PLACE, offset, value) for offset, value in enumerate(values)]
    return [[it.offset for it in together] for together in portions.of(PLACE, records)]


def test_many_small_records_are_divided_by_their_number() -> None:
    found = offsets_of(SignalPortions(), [b"{}"] * ONE_POLL)
    assert [len(together) for together in found] == [PORTION_RECORDS_MAX] * 10
    assert [offset for together in found for offset in together] == list(range(ONE_POLL))


def test_large_records_are_divided_by_their_bytes() -> None:
    large = bytes(PORTION_BYTES_MAX // 2 + 1)
    assert offsets_of(SignalPortions(), [large, large, b"", b"", large]) == [[0], [1, 2, 3], [4]]


def test_what_failed_together_goes_one_by_one_and_then_on() -> None:
    portions = SignalPortions()
    portions.blame(PLACE, [record(PLACE, 0), record(PLACE, 1)])
    assert offsets_of(portions, [b"{}"] * 4) == [[0], [1], [2, 3]]
