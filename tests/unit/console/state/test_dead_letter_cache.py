"""Lists that are kept up to date: they are those that choosing from all letters again gives."""

from random import Random
from typing import Any, get_args

import pytest

from services.console.state.dead_letter_cache import DeadLetterCache, Order, part_of
from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.groups import Key
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.dead_letters.selection import Selection, select
from services.operators.records.summary import summarize
from tests.unit.console.state.test_group_cache import ACME, CountedIndex, records
from tests.unit.operators.dead_letters.examples import at, dead_letter_body, stored
from tests.unit.operators.stored_examples import NOON_MS
from tests.unit.operators.stored_examples import stored as of_kind

COUNT = 10
OF_NO_MODEL = DeadLetterFilters(where=((Key("model"), None),))


@pytest.mark.parametrize("filters", [DeadLetterFilters(), ACME, OF_NO_MODEL])
def test_lists_that_dead_letters_are_put_into_are_those_of_choosing_again(
    filters: DeadLetterFilters,
) -> None:
    chance, dead_letters = Random(7), DeadLetterIndex()
    cache = DeadLetterCache(dead_letters)

    for one in records(chance, 120):
        record = summarize(one)
        dead_letters.take(record)
        cache.note(record)
        if chance.random() < 0.5:
            assert cache.of(filters) == DeadLetterCache(dead_letters).of(filters)

    chosen = sorted(filters.selection.of(dead_letters), key=lambda dead_letter: dead_letter.at_ms)
    assert list(cache.of(filters)) == chosen


def test_a_new_dead_letter_takes_its_place_and_the_others_are_not_gone_through_again() -> None:
    dead_letters = CountedIndex()
    cache = DeadLetterCache(dead_letters)
    for number in range(10):
        dead_letters.take(summarize(stored(dead_letter_body(f"r-{number}", at=at(number)), number)))
    assert len(cache.of(DeadLetterFilters())) == dead_letters.looked_at == 10

    record = summarize(stored(dead_letter_body("late", at=at(4.5)), 10))
    dead_letters.take(record)
    cache.note(record)

    found = [dead_letter.request_id for dead_letter in cache.of(DeadLetterFilters())]
    assert found == [*(f"r-{n}" for n in range(5)), "late", *(f"r-{n}" for n in range(5, 10))]
    assert dead_letters.looked_at == 10


def many() -> DeadLetterIndex:
    """With few times and few costs, so that most of them are beside another."""
    index, chance = DeadLetterIndex(), Random(7)
    for number in range(100):
        at_ms = NOON_MS + chance.randrange(20)
        spent = {"attempts": 1, "tokens": 1, "micro_usd": chance.randrange(5)}
        account = {"id": "a", "limit": {"attempts": 3}, "spent": spent}
        died: dict[str, Any] = {"at": as_text(at_ms), "account": account}
        died["dead_letter_id"] = f"d-{number}"
        index.take(summarize(of_kind("dead_letter/unknown_profile", at_ms, number, **died)))
    return index


@pytest.mark.parametrize("order", get_args(Order))
@pytest.mark.parametrize("start", [0, 3, 50, 99, 200])
def test_a_part_of_many_is_as_if_all_were_sorted(order: Order, start: int) -> None:
    dead_letters = many()
    aged = select(dead_letters, Selection())
    wanted: dict[Order, list[DeadLetterRow]] = {
        "oldest": aged,
        "newest": aged[::-1],
        "spent": sorted(aged, key=lambda row: -((row.spent and row.spent.micro_usd) or 0)),
    }

    assert len({row.at_ms for row in dead_letters}) > 10
    found = part_of(DeadLetterCache(dead_letters).of(DeadLetterFilters()), order, start, COUNT)
    assert found == wanted[order][start:][:COUNT]


@pytest.mark.parametrize("order", get_args(Order))
def test_a_part_of_none_is_none(order: Order) -> None:
    assert part_of([], order, 0, COUNT) == []
