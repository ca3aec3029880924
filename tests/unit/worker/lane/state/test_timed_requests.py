"""Requests that wait for their moment."""

import sys

from services.worker.lane.state.timed_requests import RELEASED_MAX, TimedRequests
from tests.unit.worker.builders import after, lane_request


def test_each_is_due_once_at_its_last_moment() -> None:
    held, one = TimedRequests(), lane_request("a")
    held.add(one, after(1))
    held.add(one, after(3))

    assert (len(held), held.next_moment()) == (1, after(1))
    assert list(held.due(after(2))) == []
    assert list(held.due(after(3))) == [one]
    assert (len(held), held.next_moment()) == (0, None)


def test_what_was_released_is_not_due() -> None:
    held, one = TimedRequests(), lane_request("a")
    held.add(one, after(1))

    assert held.release(one)
    assert not held.release(one)
    assert list(held.due(after(2))) == []


def test_moments_of_released_requests_are_removed() -> None:
    """A run of many steps holds and releases its request for each of them."""
    held, one = TimedRequests(), lane_request("a")
    for number in range(10 * RELEASED_MAX):
        held.add(one, after(1_000 + number))
        held.release(one)

    assert len(held._heap) <= RELEASED_MAX + 2


def test_a_released_request_is_not_kept() -> None:
    """It may be of half a MiB, and its moment hours away."""
    held, one = TimedRequests(), lane_request("a")
    before = sys.getrefcount(one)
    held.add(one, after(1_000))
    held.add(one, after(2_000))
    held.release(one)

    assert sys.getrefcount(one) == before


def test_earlier_moments_of_a_delayed_request_are_removed() -> None:
    """Each sign of life of a tool moves the moment at which its time is over."""
    held, one = TimedRequests(), lane_request("a")
    for number in range(10 * RELEASED_MAX):
        held.add(one, after(1_000 + number))

    assert len(held._heap) <= RELEASED_MAX + 2
    assert list(held.due(after(1_000 + 10 * RELEASED_MAX))) == [one]
