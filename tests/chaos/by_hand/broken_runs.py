"""A1 to A16 broken: steps, calls, approvals, ends and thoughts that are not as promised."""

from tests.chaos.audit.steps import CANARY, LEAKED
from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import breaks_run
from tests.chaos.by_hand.run_history_builder import ARGS, GET, PAY, USED, RunHistoryBuilder

WRONG = {"order_id": "x"}
OTHER = {"order_id": "4712"}


def begun(builder: RunHistoryBuilder, tool: str = GET) -> None:
    """A run whose first step asks for one call."""
    builder.begin("r")
    builder.step("r", 1, tool)


def ended(builder: RunHistoryBuilder, tool: str = GET) -> None:
    """The tool runs, its server says so, and the run ends."""
    builder.do("r", "1.0", tool)
    builder.answer("r", "1.0")
    builder.close_call("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A1", "r", "its terminal says")
def another_account_of_the_run(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2, run={**made.RUN, "steps": 2, "tool_calls": 1})


@breaks_run("A8", "r", "keeps r")
def private_record_left_behind(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2)
    builder.write("run_call", 0, workflow_id="w", request_id="r", n=1, place=0)


@breaks_run("A8", "r", "keeps r")
def private_record_ended_in_another_partition(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2)
    builder.write("run_call", 0, workflow_id="w", request_id="r", n=1, place=0)
    builder.put("runs", 1, builder.records[-1].key, None)


@breaks_run("A2", "r", "numbered [1, 1]")
def step_repeated(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.args = OTHER
    builder.step("r", 2, GET, n=1)
    builder.carry_out("r", "2.0")
    builder.finish("r", 3)


@breaks_run("A2", "r", "those that became a step are [1, 2]")
def attempt_without_its_step(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.spend("r", 2)
    builder.call("r", 2)
    builder.settle("r", 2, "step", usage=USED)
    builder.finish("r", 3)


@breaks_run("A2", "r", "were open")
def asked_before_the_call_ended(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.do("r", "1.0")
    builder.answer("r", "1.0")
    builder.spend("r", 2)
    builder.call("r", 2)
    builder.close_call("r", "1.0")
    builder.end_as_asked("r", 2)


@breaks_run("A2", "r.call.1.0", "again after its end")
def delivered_after_its_end(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.deliver("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A4", "r.call.1.1", "no committed step")
def call_of_no_step(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.deliver("r", "1.1")
    builder.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "numbered [1, 1]")
def delivery_twice_under_one_number(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.deliver("r", "1.0", delivery=1)
    ended(builder)


@breaks_run("A4", "r.call.1.0", "digest")
def other_arguments_than_their_digest(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0", args_digest=made.DIGEST)
    ended(builder)


@breaks_run("A4", "r.call.1.0", "ran 2 times")
def effect_doubled(builder: RunHistoryBuilder) -> None:
    begun(builder, PAY)
    builder.carry_out("r", "1.0", PAY)
    builder.do("r", "1.0", PAY)
    builder.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "published 2 times")
def at_most_once_delivered_again(builder: RunHistoryBuilder) -> None:
    begun(builder, PAY)
    builder.approve("r", "1.0")
    builder.deliver("r", "1.0", PAY)
    builder.deliver("r", "1.0", PAY)
    ended(builder, PAY)


@breaks_run("A14", "r.call.1.0", "delivery 2: nobody knew that it had not run")
def delivered_again_without_a_finding(builder: RunHistoryBuilder) -> None:
    builder.pay = {"reconcilable": True}
    begun(builder, PAY)
    builder.approve("r", "1.0")
    builder.deliver("r", "1.0", PAY)
    builder.deliver("r", "1.0", PAY)
    ended(builder, PAY)


@breaks_run("A4", "r.call.1.0", "said not to have run")
def call_that_is_said_not_to_have_run(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    outcome = {"kind": "timed_out", "after_s": 8.0, "ran": "no"}
    builder.close_call("r", "1.0", outcome=outcome)
    builder.finish("r", 2)


@breaks_run("A14", "r.call.1.0", "no server found that")
def found_out_by_nobody(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.do("r", "1.0")
    builder.close_call("r", "1.0", reconciled=True)
    builder.finish("r", 2)


@breaks_run("A4", "r.call.9.0", "never published")
def effect_without_a_call(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.do("r", "9.0")
    builder.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "no server said so")
def result_under_a_wrong_token(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.do("r", "1.0")
    builder.answer("r", "1.0", token="AAAAAAAAAAAAAAAAAAAAAA==")
    builder.close_call("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A4", "r.call.1.0", "no tool ran to its end")
def result_of_nothing(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.answer("r", "1.0")
    builder.close_call("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A4", "r.call.2.0", "r.call.1.0 has its result")
def call_that_succeeded_made_again(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.step("r", 2, GET)
    builder.carry_out("r", "2.0")
    builder.finish("r", 3)


@breaks_run("A4", "r.call.2.0", "r.call.1.0 is the equal call")
def call_with_the_result_of_another(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.state = "ended"
    builder.step("r", 2, GET)
    outcome = {"kind": "ok", "value": "done", "same_as": "r.call.0.0"}
    builder.close_call("r", "2.0", outcome=outcome)
    builder.finish("r", 3)


@breaks_run("A5", "r.call.1.0", "ended 0 times")
def call_without_an_end(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "ended 2 times")
def call_that_ends_twice(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.close_call("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "without an approval")
def approval_of_other_arguments(builder: RunHistoryBuilder) -> None:
    begun(builder, PAY)
    builder.approve("r", "1.0", args_digest=made.DIGEST)
    builder.deliver("r", "1.0", PAY)
    ended(builder, PAY)


@breaks_run("A5", "r.call.1.0", "without an approval")
def approval_after_the_delivery(builder: RunHistoryBuilder) -> None:
    begun(builder, PAY)
    builder.deliver("r", "1.0", PAY)
    builder.approve("r", "1.0")
    ended(builder, PAY)


@breaks_run("A5", "r.call.1.0", "without an approval")
def call_of_a_step_that_forgets_the_approval(builder: RunHistoryBuilder) -> None:
    builder.state = "called"
    begun(builder, PAY)
    builder.deliver("r", "1.0", PAY)
    ended(builder, PAY)


@breaks_run("A5", "r.call.1.0", "without an approval")
def call_without_the_approval_of_the_policy(builder: RunHistoryBuilder) -> None:
    builder.policy = {"ask": {"required": ["args"]}, "otherwise": "allow", "mode": "enforce"}
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "approved twice")
def approval_that_counts_twice(builder: RunHistoryBuilder) -> None:
    begun(builder, PAY)
    builder.approve("r", "1.0")
    builder.carry_out("r", "1.0", PAY)
    builder.finish("r", 2)


@breaks_run("A5", "r.call.1.0", "by who may not")
def approval_of_an_application(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.approve("r", "1.0")
    builder.change_last("control_applied", event_id="answerbus.controls.v1-0-0.applied")
    builder.finish("r", 2)


@breaks_run("A16", "r.call.1.0", "other arguments than those of its step")
def change_of_other_arguments(builder: RunHistoryBuilder) -> None:
    begun(builder, PAY)
    changed = {"args": ARGS, "asked_digest": made.DIGEST}
    builder.approve("r", "1.0", **changed)
    builder.deliver("r", "1.0", PAY)
    ended(builder, PAY)


@breaks_run("A6", "r.call.1.0", "is no tool of its agent")
def tool_that_the_agent_has_not(builder: RunHistoryBuilder) -> None:
    begun(builder, "orders.rm")
    builder.carry_out("r", "1.0", "orders.rm")
    builder.finish("r", 2)


@breaks_run("A6", "r.call.1.0", "outside of its schema")
def arguments_outside_of_their_schema(builder: RunHistoryBuilder) -> None:
    builder.args = WRONG
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2)


@breaks_run("A7", "r", "may take 2")
def more_steps_than_the_agent_may_take(builder: RunHistoryBuilder) -> None:
    builder.steps_max = 2
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.args = OTHER
    builder.step("r", 2, GET)
    builder.carry_out("r", "2.0")
    builder.finish("r", 3)


@breaks_run("A7", "r", "cancelled at")
def call_after_a_cancellation(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.write("control_applied", **builder.cancelled("r"))
    builder.tick(1)
    builder.finish("r", 2)


@breaks_run("A7", "r.call.1.0", "a tool was called after it was cancelled")
def tool_after_a_cancellation(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.write("control_applied", **builder.cancelled("r"), at=made.text(builder.now))
    builder.tick(1)
    builder.carry_out("r", "1.0")
    cause = {"kind": "cancelled", "by": "ops", "reason": "why"}
    run = {**made.RUN, "steps": 1, "tool_calls": 1}
    builder.end("r", "dead_letter", cause=cause, run=run, request=builder.asked_whole("r"))
    builder.put("runs", 0, b"r@w", None)


@breaks_run("A9", "results-0-0", "outside of the Attempts")
def thought_in_a_result(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2, answer=CANARY.decode())


@breaks_run("A9", "r", "came back to the model")
def thought_in_a_prompt(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.spend("r", 2)
    builder.call("r", 2, "rejected")
    builder.settle("r", 2, "dead_letter", failure="unavailable", counted=False)
    cause = {"kind": "rejected", "status": 400, "code": LEAKED}
    run = {**made.RUN, "steps": 1, "tool_calls": 1}
    builder.end("r", "dead_letter", 2, cause=cause, run=run, request=builder.asked_whole("r"))
    builder.put("runs", 0, b"r@w", None)


@breaks_run("A12", "r", "does not follow")
def step_cut_from_its_chain(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.args = OTHER
    builder.step("r", 2, GET, previous=None)
    builder.carry_out("r", "2.0")
    builder.finish("r", 3)


@breaks_run("A12", "r", "has not the hash")
def end_that_was_changed(builder: RunHistoryBuilder) -> None:
    begun(builder)
    builder.deliver("r", "1.0")
    builder.do("r", "1.0")
    builder.answer("r", "1.0")
    builder.close_call("r", "1.0")
    builder.change_last("tool_ended", took_ms=1)
    builder.finish("r", 2)


@breaks_run("A13", "r.call.1.0", "the policy of its agent denies it")
def call_that_the_policy_denies(builder: RunHistoryBuilder) -> None:
    rule = {"properties": {"args": {"required": ["order_id"]}}}
    builder.policy = {"deny": rule, "otherwise": "allow", "mode": "enforce"}
    begun(builder)
    builder.carry_out("r", "1.0")
    builder.finish("r", 2)
