"""A1 to A12 broken: steps, calls, approvals, ends and thoughts that are not as promised."""

from tests.chaos.audit.steps import CANARY, LEAKED
from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import breaks_run
from tests.chaos.by_hand.run_story import GET, PAY, USED, RunStory

WRONG = {"order_id": "x"}


def begun(story: RunStory, tool: str = GET) -> None:
    """A run whose first step asks for one call."""
    story.begin("r")
    story.step("r", 1, tool)


def ended(story: RunStory, tool: str = GET) -> None:
    """The tool runs, its server says so, and the run ends."""
    story.do("r", "1.0", tool)
    story.answer("r", "1.0")
    story.close_call("r", "1.0")
    story.finish("r", 2)


@breaks_run("A1", "r", "its terminal says")
def another_account_of_the_run(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.finish("r", 2, run={**made.RUN, "steps": 2, "tool_calls": 1})


@breaks_run("A1", "r", "keeps r")
def private_record_left_behind(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.finish("r", 2)
    story.write("run_call", 0, request_id="r", n=1, place=0)


@breaks_run("A2", "r", "numbered [1, 1]")
def step_told_again(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.step("r", 2, GET, n=1)
    story.carry_out("r", "2.0")
    story.finish("r", 3)


@breaks_run("A2", "r", "those that became a step are [1, 2]")
def attempt_without_its_step(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.spend("r", 2)
    story.call("r", 2)
    story.settle("r", 2, "step", usage=USED)
    story.finish("r", 3)


@breaks_run("A2", "r", "were open")
def asked_before_the_call_ended(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0")
    story.do("r", "1.0")
    story.answer("r", "1.0")
    story.spend("r", 2)
    story.call("r", 2)
    story.close_call("r", "1.0")
    story.end_as_asked("r", 2)


@breaks_run("A2", "r.call.1.0", "again after its end")
def delivered_after_its_end(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.deliver("r", "1.0")
    story.finish("r", 2)


@breaks_run("A4", "r.call.1.1", "no committed step")
def call_of_no_step(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.deliver("r", "1.1")
    story.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "numbered [1, 1]")
def delivery_twice_under_one_number(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0")
    story.deliver("r", "1.0", delivery=1)
    ended(story)


@breaks_run("A4", "r.call.1.0", "digest")
def other_arguments_than_their_digest(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0", args_digest=made.DIGEST)
    ended(story)


@breaks_run("A4", "r.call.1.0", "ran 2 times")
def effect_doubled(story: RunStory) -> None:
    begun(story, PAY)
    story.carry_out("r", "1.0", PAY)
    story.do("r", "1.0", PAY)
    story.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "published 2 times")
def at_most_once_delivered_again(story: RunStory) -> None:
    begun(story, PAY)
    story.approve("r", "1.0")
    story.deliver("r", "1.0", PAY)
    story.deliver("r", "1.0", PAY)
    ended(story, PAY)


@breaks_run("A4", "r.call.9.0", "never published")
def deed_that_nothing_asked_for(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.do("r", "9.0")
    story.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "no server said so")
def result_under_a_wrong_token(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0")
    story.do("r", "1.0")
    story.answer("r", "1.0", token="AAAAAAAAAAAAAAAAAAAAAA==")
    story.close_call("r", "1.0")
    story.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "no tool ran to its end")
def result_of_nothing(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0")
    story.answer("r", "1.0")
    story.close_call("r", "1.0")
    story.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "ended 0 times")
def call_without_an_end(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0")
    story.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "ended 2 times")
def call_that_ends_twice(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.close_call("r", "1.0")
    story.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "without an approval")
def approval_of_other_arguments(story: RunStory) -> None:
    begun(story, PAY)
    story.approve("r", "1.0", args_digest=made.DIGEST)
    story.deliver("r", "1.0", PAY)
    ended(story, PAY)


@breaks_run("A6", "r.call.1.0", "is no tool of its agent")
def tool_that_the_agent_has_not(story: RunStory) -> None:
    begun(story, "orders.rm")
    story.carry_out("r", "1.0", "orders.rm")
    story.finish("r", 2)


@breaks_run("A6", "r.call.1.0", "outside of its schema")
def arguments_outside_of_their_schema(story: RunStory) -> None:
    story.args = WRONG
    begun(story)
    story.carry_out("r", "1.0")
    story.finish("r", 2)


@breaks_run("A7", "r", "may take 1")
def more_steps_than_the_agent_may_take(story: RunStory) -> None:
    story.steps_max = 1
    begun(story)
    story.carry_out("r", "1.0")
    story.step("r", 2, GET)
    story.carry_out("r", "2.0")
    story.finish("r", 3)


@breaks_run("A7", "r", "cancelled at")
def call_after_a_cancellation(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.write("control_applied", **story.cancelled("r"))
    story.tick(1)
    story.finish("r", 2)


@breaks_run("A9", "results-0-0", "outside of the Attempts")
def thought_in_a_result(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.finish("r", 2, answer=CANARY.decode())


@breaks_run("A9", "r", "came back to the model")
def thought_in_a_prompt(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.spend("r", 2)
    story.call("r", 2, "rejected")
    story.settle("r", 2, "dead_letter", failure="unavailable", counted=False)
    cause = {"kind": "rejected", "status": 400, "code": LEAKED}
    run = {**made.RUN, "steps": 1, "tool_calls": 1}
    story.end("r", "dead_letter", 2, cause=cause, run=run, request=story.asked_whole("r"))
    story.put("runs", 0, b"r", None)


@breaks_run("A12", "r", "does not follow")
def step_cut_from_its_chain(story: RunStory) -> None:
    begun(story)
    story.carry_out("r", "1.0")
    story.step("r", 2, GET, previous=None)
    story.carry_out("r", "2.0")
    story.finish("r", 3)


@breaks_run("A12", "r", "has not the hash")
def end_that_was_changed(story: RunStory) -> None:
    begun(story)
    story.deliver("r", "1.0")
    story.do("r", "1.0")
    story.answer("r", "1.0")
    story.close_call("r", "1.0")
    story.change_last("tool_ended", took_ms=1)
    story.finish("r", 2)
