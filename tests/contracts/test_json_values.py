"""How many names and values a JSON text holds: each limit of work on records counts by this."""

import pytest

from answerbus.json_values import has_more_values, values_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (rb"[1,2]", 2),
        (rb'{"a":1}', 2),
        (rb"[[],[]]", 4),  # an empty list in a list counts as two
        (rb'{",":["",""]}', 4),
        (rb'[",:[{",2]', 2),
        (rb'["\",\\",":"]', 2),
        (rb'[1,",,,,,,', 2),  # a text without an end
        (rb'",:[{"', 0),
    ],
)
def test_signs_count_as_values_outside_of_strings_alone(text: bytes, values: int) -> None:
    assert values_of(text) == values
    assert not has_more_values(text, values)
    if values:
        assert has_more_values(text, values - 1)


def test_more_strings_than_values_are_not_looked_through() -> None:
    """No JSON: each of these would take time, and none has a sign beside it."""
    assert has_more_values(b'","' * 1_000, 900)
    assert not has_more_values(b'","' * 900, 900)
