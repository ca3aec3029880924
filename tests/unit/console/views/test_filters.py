"""Which dead letters an address means."""

from services.console.views.filters import DeadLetterFilters, filters_of
from services.operators.dead_letters.groups import Key


def test_a_filter_for_dead_letters_with_an_empty_label_does_not_become_one_for_all() -> None:
    chosen = DeadLetterFilters().narrowed([Key("label:", "tenant")], [""])

    assert filters_of(chosen.pairs) == chosen
