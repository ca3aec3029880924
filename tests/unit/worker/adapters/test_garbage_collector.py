"""Calls in flight come and go in crowds, which must not begin a search for garbage."""

import gc
from collections.abc import Iterator

import pytest

from services.worker.adapters.garbage_collector import OBJECTS_PER_CALL, YOUNG_MIN, set_thresholds


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("max_in_flight", "newest"),
    [(1, YOUNG_MIN), (100, YOUNG_MIN), (1_000, 1_000 * OBJECTS_PER_CALL)],
)
def test_more_calls_in_flight_need_more_new_objects_for_a_search(
    max_in_flight: int, newest: int
) -> None:
    set_thresholds(max_in_flight)
    assert gc.get_threshold()[0] == newest
