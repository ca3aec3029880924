"""T1 broken: records without a span, in another trace, or in the span of another."""

from tests.chaos.by_hand.broken import breaks_run, breaks_tree
from tests.chaos.by_hand.run_history_builder import GET, RunHistoryBuilder
from tests.chaos.by_hand.tree_history_builder import CHILD, RUN, TreeHistoryBuilder

CALL = "r.call.1.0"
STRANGE = "f" * 32


def whole(builder: RunHistoryBuilder) -> None:
    """A run with one call."""
    builder.begin("r")
    builder.step("r", 1, GET)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2)


@breaks_run("T1", "r", "names no span")
def result_without_a_span(builder: RunHistoryBuilder) -> None:
    whole(builder)
    builder.retrace("result", None)


@breaks_run("T1", "r", "of another trace")
def attempt_in_another_trace(builder: RunHistoryBuilder) -> None:
    whole(builder)
    builder.retrace("attempt", "r.attempt.2", STRANGE)


@breaks_run("T1", "r", f"not in the span of {CALL}")
def call_in_the_span_of_its_run(builder: RunHistoryBuilder) -> None:
    whole(builder)
    builder.retrace("tool_call", "r")


@breaks_run("T1", "r", f"not in the span of {CALL}")
def tool_that_begins_a_span_of_its_own(builder: RunHistoryBuilder) -> None:
    whole(builder)
    builder.retrace("tool_result", "another")


@breaks_tree("T1", RUN, f"not in the span of {CHILD}")
def child_below_its_run_and_not_below_the_call(builder: TreeHistoryBuilder) -> None:
    builder.delegate()
    builder.end_tree()
    builder.retrace("run_child", RUN)


@breaks_tree("T1", CHILD, "of another trace")
def child_in_a_trace_of_its_own(builder: TreeHistoryBuilder) -> None:
    builder.delegate()
    builder.answer_child()
    builder.end_child()
    builder.retrace("result", CHILD, STRANGE)
    builder.join()
    builder.finish(RUN, 2)
