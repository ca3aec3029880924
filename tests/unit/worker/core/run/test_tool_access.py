"""A toolset whose topic cannot be written is left alone, each time longer, until it is written."""

from services.worker.core.run.tool_access import (
    PAUSE_FIRST,
    PAUSE_MAX,
    UnavailableToolsets,
)
from tests.unit.worker.builders import NOW


def test_it_is_left_alone_for_a_while_and_others_are_not() -> None:
    toolsets = UnavailableToolsets()
    toolsets.failed("orders", NOW)

    assert not toolsets.is_available("orders", NOW)
    assert toolsets.is_available("echo", NOW)
    assert toolsets.is_available("orders", NOW + PAUSE_FIRST)


def test_each_failure_makes_the_pause_longer_up_to_a_limit() -> None:
    toolsets, at, pauses = UnavailableToolsets(), NOW, []
    for _ in range(12):
        toolsets.failed("orders", at)
        toolsets.failed("orders", at)  # another lane finds the same
        began = at
        while not toolsets.is_available("orders", at):
            at += PAUSE_FIRST
        pauses.append((at - began) / PAUSE_FIRST)

    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-2:] == [PAUSE_MAX / PAUSE_FIRST] * 2


def test_a_write_ends_the_pauses() -> None:
    toolsets = UnavailableToolsets()
    toolsets.failed("orders", NOW)
    toolsets.failed("orders", NOW + PAUSE_FIRST)
    toolsets.written(["orders"])
    assert toolsets.is_available("orders", NOW)

    toolsets.failed("orders", NOW)
    assert toolsets.is_available("orders", NOW + PAUSE_FIRST), "it begins with the first again"
