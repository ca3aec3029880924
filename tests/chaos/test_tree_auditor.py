"""The auditor finds each broken promise of trees in a history made by hand: that one, no other."""

import pytest

from tests.chaos.auditor import audit
from tests.chaos.by_hand import broken_trees
from tests.chaos.by_hand.broken import BrokenTree
from tests.chaos.by_hand.tree_story import TreeStory

BROKEN = [b for b in vars(broken_trees).values() if isinstance(b, BrokenTree)]


def test_a_tree_that_keeps_every_promise_is_clean() -> None:
    story = TreeStory()
    story.delegate(cap=1)
    story.end_tree()

    assert audit(story.history()) == []


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_a_broken_promise_is_found(broken: BrokenTree) -> None:
    story = TreeStory()

    broken.tell(story)

    violations = audit(story.history())
    assert [(v.promise, v.about) for v in violations] == [(broken.promise, broken.about)]
    assert broken.words in violations[0].text
