"""A1, A3 to A5 and A7 of trees broken: children that spend, end or are told as they must not."""

from tests.chaos.audit.accounts import OUT_OF_ATTEMPTS
from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import breaks_tree
from tests.chaos.by_hand.tree_story import CHILD, RUN, TreeStory

STOPPED = {"kind": "cancelled", "by": "ops", "reason": "why"}


@breaks_tree("A1", CHILD, "its run before")
def child_that_outlives_its_run(story: TreeStory) -> None:
    story.delegate()
    story.answer_child()
    story.join()
    story.finish(RUN, 2)
    story.end_child()


@breaks_tree("A3", CHILD, "its part is 0")
def more_than_its_part(story: TreeStory) -> None:
    story.delegate(cap=0)
    story.end_tree()


@breaks_tree("A3", RUN, "no attempt since its last step")
def floor_taken(story: TreeStory) -> None:
    story.delegate(attempts=2)
    story.answer_child()
    story.end_child()
    story.join()
    run = {**made.RUN, "steps": 1, "tool_calls": 1, "children": 1}
    asked = story.asked_whole(RUN)
    story.end(RUN, "dead_letter", 1, cause=OUT_OF_ATTEMPTS, run=run, request=asked)
    story.put("runs", 0, RUN.encode(), None)


@breaks_tree("A4", f"{RUN}.call.1.1", "no committed step asks it")
def child_of_no_step(story: TreeStory) -> None:
    story.delegate(place="1.1")
    name = f"{RUN}.call.1.1"
    story.answer_child(name)
    story.end_child(name)
    story.join()
    story.finish(RUN, 2)


@breaks_tree("A5", CHILD, "its run was told")
def answer_of_another(story: TreeStory) -> None:
    story.delegate()
    story.answer_child()
    story.end_child()
    story.join(outcome={"kind": "ok", "value": "another"})
    story.finish(RUN, 2)


@breaks_tree("A5", CHILD, "never told")
def join_that_is_lost(story: TreeStory) -> None:
    story.delegate()
    story.answer_child()
    story.end_child()
    story.tick(1)
    story.join(outcome=STOPPED)
    story.finish(RUN, 2)


@breaks_tree("A7", CHILD, "after the call had ended")
def spent_after_its_call(story: TreeStory) -> None:
    story.delegate()
    story.join(outcome=STOPPED)
    story.tick(1)
    story.answer_child()
    story.end_child()
    story.finish(RUN, 2)


@breaks_tree("A7", CHILD, "after that of its run")
def deadline_after_that_of_its_run(story: TreeStory) -> None:
    story.ttl_s = 10_000
    story.delegate()
    story.end_tree()
