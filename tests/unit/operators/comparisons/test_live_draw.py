"""Which requests are asked again live: by their ids alone, once, and of plain requests."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from services.operators.comparisons import live_draw
from services.operators.comparisons.live_draw import Drawn, LiveDraw
from services.operators.comparisons.questions import questions_of
from services.operators.comparisons.shadow_day import is_of_day, shadow_name
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, stored

MANY = 2_000


def request(number: int = 1, profile: str = "default", **more: Any) -> Stored:
    return stored("request/minimal", NOON_MS, number, **_ids(number), profile=profile, **more)


def attempt(number: int = 1, **more: Any) -> Stored:
    return stored("attempt/result", NOON_MS, number, **_ids(number), **{"attempt": 1, **more})


def outcome(number: int = 1, example: str = "result/text") -> Stored:
    return stored(example, NOON_MS, number, **_ids(number))


def _ids(number: int) -> dict[str, Any]:
    return {"request_id": f"r-{number}", "workflow_id": "w"}


def drawing(share: float = 1.0, forgotten: list[str] | None = None) -> LiveDraw:
    seen = [] if forgotten is None else forgotten
    return LiveDraw({"default": share}, seen.append)


def take(
    draw: LiveDraw,
    *,
    requests: Sequence[Stored] = (),
    past: Sequence[Stored] = (),
    ended: Sequence[Stored] = (),
) -> list[Drawn]:
    records_seen = map(draw.seen, map(summarize, (*requests, *past, *ended)))
    return list(draw.take(seen for seen in records_seen if seen))


def test_a_request_is_drawn_with_its_first_call_when_it_is_answered() -> None:
    draw, records = drawing(), [request(), outcome()]
    begun = take(draw, requests=records[:1], past=[attempt(usage={"micro_usd": 70})])
    (drawn,) = take(draw, ended=records[1:])
    (question,) = _questions(drawn, records)

    assert (begun, drawn.profile) == ([], "default")
    assert question.recorded.usage.micro_usd == 70
    assert take(draw, ended=records[1:]) == []


@pytest.mark.parametrize("other", [{"outcome": "released"}, {"attempt": 2}])
def test_neither_a_call_that_was_turned_away_nor_a_repair_is_compared(other: Any) -> None:
    (drawn,) = take(drawing(), requests=[request()], past=[attempt(**other)], ended=[outcome()])

    assert drawn.sampled.attempts == {}


def _questions(drawn: Drawn, records: list[Stored]) -> Any:
    found = questions_of(drawn.sampled, records)
    assert isinstance(found, list)
    return found


@pytest.mark.wide
def test_ids_alone_decide_so_that_a_request_that_is_delivered_again_is_drawn_as_before() -> None:
    every = range(MANY)
    draws = []
    for _ in range(2):
        found = take(
            drawing(0.05),
            requests=[request(n) for n in every] * 2,
            ended=[outcome(n) for n in every] * 2,
        )
        draws.append([one.sampled.key for one in found])

    assert draws[0] == draws[1]
    assert len(set(draws[0])) == len(draws[0])
    assert 0.035 * MANY < len(draws[0]) < 0.065 * MANY


@pytest.mark.parametrize(
    ("requests", "ended"),
    [
        ([request(profile="other")], [outcome()]),
        ([request(agent={"name": "support"})], [outcome()]),
        ([], [outcome()]),
        ([request()], [outcome(example="dead_letter/unknown_profile")]),
        ([request()], [outcome(2)]),
    ],
    ids=["another profile", "a run", "begun before", "no answer at fault", "another request"],
)
def test_what_is_not_drawn(requests: list[Stored], ended: list[Stored]) -> None:
    assert take(drawing(), requests=requests, ended=ended) == []


def test_what_is_kept_of_a_record_is_small_whatever_a_stranger_writes() -> None:
    huge = "x" * 1_000_000
    records = (attempt(labels={"tenant": huge}), outcome(), request(labels={"tenant": huge}))
    records_seen = [drawing().seen(summarize(one)) for one in records]

    assert all(records_seen)
    assert max(len(repr(seen)) for seen in records_seen) < 5_000


@pytest.mark.parametrize("share", [0.0, 0])
def test_a_share_of_nothing_draws_nothing(share: float) -> None:
    assert take(drawing(share), requests=[request()], ended=[outcome()]) == []


def test_of_too_many_open_requests_the_first_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_draw, "OPEN_MAX", 2)
    forgotten: list[str] = []
    draw = drawing(forgotten=forgotten)
    found = take(
        draw, requests=[request(n) for n in range(3)], ended=[outcome(n) for n in range(3)]
    )

    assert [one.sampled.key.request_id for one in found] == ["r-1", "r-2"]
    assert forgotten == ["default"]


def test_a_day_of_a_profile_is_told_from_those_of_others_by_its_name() -> None:
    day = date(2026, 11, 26)
    name = shadow_name("default", "new", day)

    assert name == "new.SHADOWS.default.2026-11-26"
    assert is_of_day(name, "default", day)
    assert is_of_day(shadow_name("default", "newer", day), "default", day)
    assert not is_of_day(name, "default", date(2026, 11, 27))
    assert not is_of_day(shadow_name("my-default", "new", day), "default", day)
    assert not is_of_day("default.2026-11-26", "default", day)
