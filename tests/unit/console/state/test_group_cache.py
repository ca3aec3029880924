"""Groups that are kept up to date: they are those that counting all letters again gives."""

from collections.abc import Iterator
from random import Random

import pytest

from services.console.state.group_cache import DEFAULT, GROUPS_MAX, STEP_DEAD_LETTERS, GroupCache
from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.groups import ORDERS, Key, key_of
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.dead_letters.examples import at, dead_letter_body, replayed_body, stored

CAUSES = ({"kind": "unknown_profile"}, {"kind": "deadline_passed"})
ACME = DeadLetterFilters(where=((Key("label:", "tenant"), "acme"),))


class CountedIndex(DeadLetterIndex):
    """Knows how many letters were gone through."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = 0

    def __iter__(self) -> Iterator[DeadLetterRow]:
        self.looked_at += len(self)
        return super().__iter__()


def records(chance: Random, count: int) -> Iterator[Stored]:
    """Letters of a few accounts, and now and then a replay of one of them."""
    for number in range(count):
        if number and chance.random() < 0.1:
            yield stored(replayed_body(f"r-{chance.randrange(number)}"), number)
            continue
        spent = {"attempts": chance.randrange(4), "tokens": 10, "micro_usd": chance.randrange(99)}
        workflow_id = f"w-{chance.randrange(8)}"
        yield stored(
            dead_letter_body(
                f"r-{number}",
                workflow_id,
                account={"id": workflow_id, "limit": {}, "spent": spent},
                cause=chance.choice(CAUSES),
                prior=[],
                labels={"tenant": chance.choice(("acme", "zeta"))},
                at=at(chance.randrange(3_600)),
            ),
            number,
        )


@pytest.mark.parametrize("filters", [DeadLetterFilters(), DeadLetterFilters(status=None), ACME])
@pytest.mark.parametrize("keys", [["cause"], ["why", "label:tenant"], ["model"], []])
def test_groups_that_dead_letters_are_added_to_are_those_of_counting_again(
    filters: DeadLetterFilters, keys: list[str]
) -> None:
    chance, by = Random(7), [key for name in keys if (key := key_of(name))]
    dead_letters = DeadLetterIndex()
    cache = GroupCache(dead_letters)

    for one in records(chance, 120):
        record = summarize(one)
        dead_letters.take(record)
        cache.note(record)
        order = chance.choice(list(ORDERS))
        if chance.random() < 0.5:
            assert cache.of(filters, by, order) == GroupCache(dead_letters).of(filters, by, order)


def test_a_new_dead_letter_is_added_and_the_others_are_not_counted_again() -> None:
    dead_letters = CountedIndex()
    cache = GroupCache(dead_letters)
    keys = [Key("cause")]
    for number in range(10):
        dead_letters.take(summarize(stored(dead_letter_body(f"r-{number}"), number)))
    assert cache.of(DeadLetterFilters(), keys, "letters").count == dead_letters.looked_at == 10

    record = summarize(stored(dead_letter_body("r-10"), 10))
    dead_letters.take(record)
    cache.note(record)

    assert cache.of(DeadLetterFilters(), keys, "letters").count == 11
    assert dead_letters.looked_at == 10


def test_the_default_way_is_counted_ahead_in_steps() -> None:
    dead_letters = CountedIndex()
    cache = GroupCache(dead_letters)
    for one in records(Random(7), 2 * STEP_DEAD_LETTERS):
        dead_letters.take(summarize(one))

    assert len(list(cache.count_ahead())) == 2
    looked_at = dead_letters.looked_at
    found = cache.of(*DEFAULT, "letters")

    assert dead_letters.looked_at == looked_at
    assert found == GroupCache(dead_letters).of(*DEFAULT, "letters")
    assert found.count > STEP_DEAD_LETTERS


def test_what_would_make_too_many_groups_is_not_kept() -> None:
    dead_letters = CountedIndex()
    cache = GroupCache(dead_letters)
    for number in range(GROUPS_MAX + 1):
        dead_letters.take(
            summarize(stored(dead_letter_body(f"r-{number}", request={"profile": f"p-{number}"})))
        )

    list(cache.count_ahead())

    assert cache.of(*DEFAULT, "letters") == GroupCache(dead_letters).of(*DEFAULT, "letters")


def test_a_group_for_each_dead_letter_is_counted_again_each_time() -> None:
    dead_letters = DeadLetterIndex()
    cache = GroupCache(dead_letters)
    keys = [Key("label:", "order")]
    for number in range(GROUPS_MAX + 1):
        record = summarize(stored(dead_letter_body(f"r-{number}", labels={"order": f"{number}"})))
        dead_letters.take(record)
        cache.note(record)
        found = cache.of(DeadLetterFilters(), keys, "newest")
        assert (found.count, found.total) == (number + 1, number + 1)
    assert len(found.groups) == GROUPS_MAX
