"""`/live` and `/metrics` of `answerbus shadow`: its own figures, for those who are meant."""

from http import HTTPStatus

import pytest
from aiohttp import ClientSession

from answerbus.compared import Compared
from services.commands.shadow_health import serving_health
from services.commands.shadowing import ShadowCounter
from services.settings.settings import SetUpError
from services.telemetry.counts import Counts
from tests.unit.operators.comparisons.test_comparisons import compared


async def test_what_became_of_drawn_requests_is_counted() -> None:
    counts, sent = Counts(), list[Compared]()
    observer = ShadowCounter(counts, sent.append)
    one = compared("differs")
    observer.asked("default", one)
    observer.dropped("default", "busy")
    async with serving_health("127.0.0.1:0", counts) as address, ClientSession() as session:
        text = await (await session.get(f"{address}/metrics")).text()
        live = await session.get(f"{address}/live")
        foreign = await session.get(f"{address}/metrics", headers={"Host": "evil.example"})

    by = f'profile="default",shadow="{one.again.profile}"'
    assert f'answerbus_shadow_asked_total{{outcome="answered",{by}}} 1.0' in text
    assert f"answerbus_shadow_spent_micro_usd_total{{{by}}} {one.charged_micro_usd}.0" in text
    assert 'answerbus_shadow_dropped_total{profile="default",why="busy"} 1.0' in text
    assert "answerbus_ready" not in text
    assert sent == [one]
    assert (live.status, foreign.status) == (HTTPStatus.OK, HTTPStatus.MISDIRECTED_REQUEST)


@pytest.mark.parametrize("place", ["8080", ":8080", "localhost:x"])
async def test_a_place_that_cannot_be_served_is_named(place: str) -> None:
    with pytest.raises(SetUpError, match="health"):
        async with serving_health(place, Counts()):
            pass
