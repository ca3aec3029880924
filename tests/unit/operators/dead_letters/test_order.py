"""A part of a long list of dead letters, in its order."""

import random
from typing import Any, get_args

import pytest

from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.dead_letters.selection import Order, Selection, in_order, select
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, stored

COUNT = 10


def many() -> list[DeadLetterRow]:
    """With few times and few costs, so that most of them stand beside another."""
    index, chance = DeadLetterIndex(), random.Random(7)
    for number in range(100):
        at_ms = NOON_MS + chance.randrange(20)
        spent = {"attempts": 1, "tokens": 1, "micro_usd": chance.randrange(5)}
        account = {"id": "a", "limit": {"attempts": 3}, "spent": spent}
        died: dict[str, Any] = {"at": as_text(at_ms), "account": account}
        died["dead_letter_id"] = f"d-{number}"
        index.take(summarize(stored("dead_letter/unknown_profile", at_ms, number, **died)))
    return list(index)


@pytest.mark.parametrize("order", get_args(Order))
@pytest.mark.parametrize("start", [0, 3, 50, 99, 200])
def test_a_part_of_many_is_as_if_all_were_sorted(order: Order, start: int) -> None:
    letters = many()
    aged = select(letters, Selection())
    wanted: dict[Order, list[DeadLetterRow]] = {
        "oldest": aged,
        "newest": aged[::-1],
        "spent": sorted(letters, key=lambda row: -((row.spent and row.spent.micro_usd) or 0)),
    }

    assert len({row.at_ms for row in letters}) > 10
    assert in_order(letters, order, start, COUNT) == wanted[order][start:][:COUNT]


@pytest.mark.parametrize("order", get_args(Order))
def test_a_part_of_none_is_none(order: Order) -> None:
    assert in_order([], order, 0, COUNT) == []
