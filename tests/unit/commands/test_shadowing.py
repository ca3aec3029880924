"""`answerbus shadow` goes on where Kafka comes back, and ends where it refuses."""

import asyncio
from typing import Any

import pytest

from answerbus.client.errors import BusRefused, BusUnavailable
from services.commands import shadowing
from services.operators.adapters import shadowing as following
from services.operators.comparisons.live_draw import LiveDraw

LIMIT_S = 10.0
NOTHING: Any = None
DRAW = LiveDraw({}, lambda _: None)


class Kafka:
    """Away as often as it says, then there until it is stopped."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = [*errors], 0

    async def shadow(self, *given: Any) -> None:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        given[-1].set()


async def _follow(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "AGAIN_S", 0)
    monkeypatch.setattr(following, "shadow", kafka.shadow)
    async with asyncio.timeout(LIMIT_S):
        await shadowing._follow(NOTHING, {}, DRAW, asyncio.Event())


async def test_it_begins_again_when_kafka_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(BusUnavailable("away"), BusUnavailable("still away"))
    await _follow(kafka, monkeypatch)

    assert kafka.asked == 3


async def test_it_ends_where_a_right_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BusRefused, match="no right"):
        await _follow(Kafka(BusRefused("no right")), monkeypatch)
