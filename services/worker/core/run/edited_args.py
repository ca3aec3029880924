"""Arguments of a call that a person changes: whether they fit, and what the policy says; pure."""

from answerbus.control import Approval
from answerbus.edited_args import EditedArgs
from answerbus.failure import Problem
from services.text.digest import canonical_digest
from services.worker.core.guard.effort import LOOP_NS, sparing
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.ask_person import is_quick, problems_of_answer
from services.worker.core.run.asked_calls import POLICY_STEP_NS_MAX, verdict_on
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run, ToolCall
from services.worker.core.schema.validator import too_large

_UNCHANGED = Problem.of(
    "",
    "too_costly",
    "the arguments as the model wrote them: to check others by this tool's schema takes too long",
)


def is_for(approval: Approval, call: ToolCall) -> bool:
    """Whether it is about this delivery of the call, and says which arguments it is for.

    Changed arguments have the digest of the approval, so that a worker that does not know of them
    takes it for one of another call.
    """
    if (approval.delivery, approval.after_input) != (call.next_delivery, call.after_input):
        return False
    if approval.args is None:
        return approval.args_digest == call.args_digest
    is_own_digest = approval.args_digest == canonical_digest(approval.args)
    return is_own_digest and approval.asked_digest == call.args_digest


def edited_args(
    run: Run, call: ToolCall, approval: Approval, args: JsonObject, inputs: RunInputs
) -> EditedArgs | tuple[Problem, ...]:
    """They are judged as if the model had written them in that step."""
    if call.next_delivery > 1:
        return (Problem.of("", "delivered", "the arguments that the call was delivered with"),)
    schema = run.tools[call.asked.tool].card.args_schema
    if too_large(schema, LOOP_NS) or not is_quick(schema):
        return (_UNCHANGED,)
    if problems := problems_of_answer(schema, args):
        return problems
    with sparing(POLICY_STEP_NS_MAX):
        policy = verdict_on(run.before_last_step, call.asked.tool, args, inputs, inputs.spent)
    return EditedArgs(args=args, args_digest=approval.args_digest, by=approval.by, policy=policy)
