"""The auditor finds each broken promise of trees in a history made by hand: that one, no other."""

import pytest

from tests.chaos.auditor import audit
from tests.chaos.by_hand import broken_traces, broken_trees
from tests.chaos.by_hand.broken import BrokenTree
from tests.chaos.by_hand.tree_history_builder import TreeHistoryBuilder

HISTORIES = (broken_trees, broken_traces)
BROKEN = [b for told in HISTORIES for b in vars(told).values() if isinstance(b, BrokenTree)]


def test_a_tree_that_keeps_every_promise_is_clean() -> None:
    builder = TreeHistoryBuilder()
    builder.delegate(cap=1)
    builder.end_tree()

    assert audit(builder.history()) == []


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_a_broken_promise_is_found(broken: BrokenTree) -> None:
    builder = TreeHistoryBuilder()

    broken.tell(builder)

    violations = audit(builder.history())
    assert [(v.promise, v.about) for v in violations] == [(broken.promise, broken.about)]
    assert broken.words in violations[0].text
