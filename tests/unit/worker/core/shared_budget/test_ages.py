"""What was not written again for long is found, the oldest first, and once."""

from datetime import timedelta

from services.worker.core.shared_budget.ages import Ages
from tests.unit.worker.builders import NOW

HOUR = timedelta(hours=1)


def test_what_is_old_is_taken_once_and_what_was_noted_again_is_not_old() -> None:
    ages = Ages[str]()
    for hours, key in enumerate("abcd"):
        ages.note(key, NOW + hours * HOUR)
    ages.note("a", NOW + 3 * HOUR)
    ages.forget("b")

    assert ages.take_old(NOW + 3 * HOUR, most=10) == ["c"]
    assert ages.take_old(NOW + 3 * HOUR, most=10) == []
    assert sorted(ages.take_old(NOW + 4 * HOUR, most=10)) == ["a", "d"]


def test_so_many_are_taken_at_once() -> None:
    ages = Ages[int]()
    for number in range(5):
        ages.note(number, NOW)

    taken = [len(ages.take_old(NOW + HOUR, most=2)) for _ in range(4)]

    assert taken == [2, 2, 1, 0]
