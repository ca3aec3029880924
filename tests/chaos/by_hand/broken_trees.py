"""A1, A3 to A5 and A7 of trees broken: children that spend, end or are told as they must not."""

from tests.chaos.audit.accounts import OUT_OF_ATTEMPTS
from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import breaks_tree
from tests.chaos.by_hand.tree_history_builder import CHILD, RUN, TreeHistoryBuilder

STOPPED = {"kind": "cancelled", "by": "ops", "reason": "why"}


@breaks_tree("A1", CHILD, "its run before")
def child_that_ends_after_its_run(builder: TreeHistoryBuilder) -> None:
    builder.delegate()
    builder.answer_child()
    builder.join()
    builder.finish(RUN, 2)
    builder.end_child()


@breaks_tree("A3", CHILD, "its part is 0")
def more_than_its_part(builder: TreeHistoryBuilder) -> None:
    builder.delegate(cap=0)
    builder.end_tree()


@breaks_tree("A3", RUN, "no attempt since its last step")
def floor_taken(builder: TreeHistoryBuilder) -> None:
    builder.delegate(attempts=2)
    builder.answer_child()
    builder.end_child()
    builder.join()
    run = {**made.RUN, "steps": 1, "tool_calls": 1, "children": 1}
    asked = builder.asked_whole(RUN)
    builder.end(RUN, "dead_letter", 1, cause=OUT_OF_ATTEMPTS, run=run, request=asked)
    builder.put("runs", 0, f"{RUN}@w".encode(), None)


@breaks_tree("A4", f"{RUN}.call.1.1", "no committed step asks it")
def child_of_no_step(builder: TreeHistoryBuilder) -> None:
    builder.delegate(place="1.1")
    name = f"{RUN}.call.1.1"
    builder.answer_child(name)
    builder.end_child(name)
    builder.join()
    builder.finish(RUN, 2)


@breaks_tree("A5", CHILD, "its run was told")
def answer_of_another(builder: TreeHistoryBuilder) -> None:
    builder.delegate()
    builder.answer_child()
    builder.end_child()
    builder.join(outcome={"kind": "ok", "value": "another"})
    builder.finish(RUN, 2)


@breaks_tree("A5", CHILD, "never told")
def join_that_is_lost(builder: TreeHistoryBuilder) -> None:
    builder.delegate()
    builder.answer_child()
    builder.end_child()
    builder.tick(1)
    builder.join(outcome=STOPPED)
    builder.finish(RUN, 2)


@breaks_tree("A7", CHILD, "after the call had ended")
def spent_after_its_call(builder: TreeHistoryBuilder) -> None:
    builder.delegate()
    builder.join(outcome=STOPPED)
    builder.tick(1)
    builder.answer_child()
    builder.end_child()
    builder.finish(RUN, 2)


@breaks_tree("A7", CHILD, "after that of its run")
def deadline_after_that_of_its_run(builder: TreeHistoryBuilder) -> None:
    builder.ttl_s = 10_000
    builder.delegate()
    builder.end_tree()
