"""Which dead letters an address means."""

import pytest

from services.console.views.filters import DeadLetterFilters, filters_of
from services.operators.dead_letters.groups import Key


def test_a_filter_for_dead_letters_with_an_empty_label_does_not_become_one_for_all() -> None:
    chosen = DeadLetterFilters().narrowed([Key("label:", "tenant")], [""])

    assert filters_of(chosen.pairs) == chosen


@pytest.mark.parametrize(
    "typed", ["2026-11-21", "2026-11-21T00:00", "2026-11-21T01:00:00+01:00", "2026-11-21T00:00Z"]
)
def test_a_time_is_typed_as_it_is_given_to_an_option(typed: str) -> None:
    found, expected = filters_of([("from", typed)]), filters_of([("since", "2026-11-21T00:00Z")])

    assert found == expected
    assert isinstance(found, DeadLetterFilters)
