"""Values in prompts: on lines of their own, and no deep value is made many times its size."""

import json

import pytest
from pydantic import JsonValue
from pydantic_core import to_json

from services.worker.core.guard.shown_value import INDENTED_LEVELS_MAX, shown_value
from tests.cost.budget import ANYBODY, MARGIN, peak_bytes, spent
from tests.unit.worker import builders

VALUES = 16_000  # of one request, nearly


def nested(levels: int, inside: JsonValue) -> JsonValue:
    for _ in range(levels):
        inside = [inside]
    return inside


@pytest.mark.parametrize(
    "value", ["a\nb", 1, None, [], {"a": [1, 2.5, {"b": [], "é": "\u2028"}]}, nested(11, {"a": 1})]
)
def test_a_value_is_shown_in_lines(value: JsonValue) -> None:
    expected = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    assert shown_value(value) == expected


@pytest.mark.wide
@pytest.mark.parametrize("levels", [1, INDENTED_LEVELS_MAX, INDENTED_LEVELS_MAX + 1, 180])
def test_a_prompt_is_not_many_times_the_request(levels: int) -> None:
    """By levels of nesting alone a fact of 32 KB became 3 MB of text, which took 0.1 s."""
    fact = {"name": "f", "value": nested(levels - 1, [0] * VALUES)}
    request = builders.request(context={"instructions": "x", "facts": [fact]})
    size = len(to_json(fact))

    prompt = builders.prompt(request)

    assert sum(len(turn.text) for turn in prompt.turns) < size * (INDENTED_LEVELS_MAX + 2)
    assert spent(lambda: builders.prompt(request)).is_below(ANYBODY.loop_s * MARGIN)
    assert peak_bytes(lambda: builders.prompt(request)) < ANYBODY.bytes_max(size)
