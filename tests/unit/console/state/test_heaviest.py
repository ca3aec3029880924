"""The heaviest names: which are held, and of which every record was counted."""

import random
from collections import Counter

import pytest

from services.console.state.heaviest import DAY_MINUTES, Heaviest
from services.console.state.spend_table import (
    FORGET_EVERY_MINUTES,
    KEY_MINUTES_MAX,
    Amounts,
    SpendTable,
    sum_of,
)

KEPT = 20


def weighed(seed: int) -> tuple[Heaviest[str], Counter[str], Counter[str]]:
    """Some thousand records of many names, some of them heavy: what is held, counted, and true."""
    chance, heaviest = random.Random(seed), Heaviest[str](KEPT)
    counted, true = Counter[str](), Counter[str]()
    for n in range(3_000):
        name = chance.choice([f"once-{n}", f"few-{chance.randrange(300)}", f"often-{n % 3}"])
        weight = chance.randint(1, 10)
        true[name] += weight
        counted[name] += weight
        for dropped, _ in heaviest.take(name, weight, n // 100):
            del counted[dropped]
    return heaviest, counted, true


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(20))
def test_a_name_with_more_than_its_part_of_all_weight_is_held(seed: int) -> None:
    heaviest, counted, true = weighed(seed)

    assert len(heaviest) <= 2 * KEPT
    heavy = {name for name, weight in true.items() if weight > true.total() / KEPT}
    assert heavy == {"often-0", "often-1", "often-2"}
    assert heavy <= counted.keys()


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(20))
def test_what_is_called_whole_was_counted_in_full(seed: int) -> None:
    heaviest, counted, true = weighed(seed)
    whole = {name for name in counted if heaviest.is_whole(name)}

    assert {name: counted[name] for name in whole} == {name: true[name] for name in whole}
    assert whole


def test_a_name_that_comes_again_after_it_was_dropped_is_not_whole_until_that_day_is_over() -> None:
    heaviest = Heaviest[int](1)
    for name in (1, 2, 3):
        heaviest.take(name, name, 0)
    assert not heaviest.is_whole(1)

    heaviest.take(1, 9, 1)
    assert len(heaviest) == 2
    assert not heaviest.is_whole(1)

    for day in (1, 2):
        heaviest.take(9, 9, day * DAY_MINUTES)
    heaviest.take(2, 99, 2 * DAY_MINUTES)
    assert heaviest.is_whole(2)


def test_the_sums_of_a_table_are_those_of_their_minutes_in_any_order() -> None:
    chance, table = random.Random(1), SpendTable[str](KEPT)
    records = [(f"w-{n % 7}", Amounts(1, n, 2 * n, 3 * n), n // 20) for n in range(2_000)]
    chance.shuffle(records)
    for name, amounts, minute in records:
        table.take(name, amounts, minute)

    found = {row.name: row.amounts for row in table.between(10, 40)}
    assert found == {
        f"w-{k}": sum_of(one for name, one, at in records if name == f"w-{k}" and 10 <= at < 40)
        for k in range(7)
    }
    whole = {row.name: row.amounts for row in table.between(0, 200)}
    assert whole == {
        f"w-{k}": sum_of(one for name, one, _ in records if name == f"w-{k}") for k in range(7)
    }
    (dearest, *_) = table.between(0, 200)
    assert dearest.amounts == max(found.values()) or dearest.amounts.charged_micro_usd


@pytest.mark.wide
def test_a_table_keeps_a_day_and_a_bounded_number_of_minutes() -> None:
    table = SpendTable[int](1_000)
    names, minutes = KEY_MINUTES_MAX // DAY_MINUTES + 50, DAY_MINUTES
    for minute in range(minutes):
        for name in range(names):
            table.take(name, Amounts(1, 1, 1 + 100 * (name == 5), 0), minute)

    assert table.between(0, minutes)[0].name == 5
    assert table.between(0, minutes)[0].amounts.micro_usd == 101 * minutes
    assert 0 < table.size <= KEY_MINUTES_MAX
    table.take(0, Amounts(1), 3 * DAY_MINUTES)
    assert table.size == 1


def test_minutes_that_are_forgotten_are_in_no_sum() -> None:
    table = SpendTable[str](KEPT)
    for minute in (0, DAY_MINUTES, DAY_MINUTES + FORGET_EVERY_MINUTES):
        table.take("w", Amounts(1, 2, 3, 4), minute)

    assert table.between(0, 3 * DAY_MINUTES)[0].amounts == Amounts(2, 4, 6, 8)


def test_amounts_beyond_all_numbers_break_nothing() -> None:
    table = SpendTable[str](KEPT)
    for _ in range(20):
        table.take("w", Amounts(1, 10**18, 10**18, 10**18), 0)

    assert table.between(0, 1)[0].amounts == Amounts(20, 10**18, 10**18, 10**18)
