"""A run, a step and a call in a tree, as words for people; pure."""

import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import assert_never

from answerbus import call_outcome as outcomes
from answerbus.budget import Spent
from answerbus.control import (
    Approval,
    ApprovalRequested,
    Cancel,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.dead_letter import DeadLetter
from answerbus.explain import problems_text
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.policy import PolicyVerdict
from answerbus.step import CallState
from services.operators.explain import died_text
from services.operators.records.money import dollars_of
from services.operators.records.within_limits import amount
from services.operators.runs.shown_args import ARGS_CHARS_MAX, shown_args
from services.operators.runs.tree import Awaited, CallNode, RunNode, StepNode
from services.text.counted import count_text
from services.text.escaping import json_line, plain_line

LINE_CHARS_MAX = 200  # of arguments and values in a line of a tree
CALLED_BEFORE = "It was called before, and it is not known whether it ran: look, then decide."
PROPOSE = "propose"  # the tool of the calls that ask for proposals
MILLISECONDS_MAX = 1_000  # what takes longer is shown in seconds
STATES: Mapping[CallState, str] = MappingProxyType(
    {
        "called": "called",
        "waiting": "queued",
        "awaits_approval": "awaits approval",
        "awaits_input": "awaits an answer",
        "ended": "ended",
    }
)


def run_text(run: RunNode) -> str:
    """Such as `r-1 support v3 · 7 steps · 9 attempts of 20 · $0.0124 · waits for tools`.

    What it cost is shown with all below it; then what it took itself, if something is below it.
    """
    parts = [f"{run.request_id} {run.agent}" if run.agent else run.request_id]
    if run.agent:
        parts.append(count_text(len(run.steps), "step"))
    if run.taken_over:
        parts.append(f"goes on after {count_text(run.taken_over, 'step')}")
    account = run.account
    if account is None or run.parent is not None:
        parts.append(count_text(run.whole.attempts, "attempt"))
    else:
        parts.append(f"{count_text(account.spent.attempts, 'attempt')} of {account.limit.attempts}")
    parts += _cost(run.whole)
    if any(call.children for call in run.calls):
        own = (count_text(run.own.attempts, "attempt"), *_cost(run.own))
        parts.append(f"itself {', '.join(own)}")
    parts.append(state_text(run))
    if run.cancel:
        parts.append(f"cancelled by {run.cancel.by}: {run.cancel.reason}")
    return plain_line(" · ".join(parts))


def utc_text(at: datetime) -> str:
    """Such as `2026-11-21 10:02:11 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def state_text(run: RunNode) -> str:
    """Its state, and since when."""
    since = f" since {utc_text(run.since)}" if run.since else ""
    match run.state:
        case "working":
            return f"works on its next step{since}"
        case "waiting":
            return f"waits for tools{since}"
        case "awaits_approval":
            return f"waits for approval{since}"
        case "awaits_input":
            return f"waits for an answer{since}"
        case "ended":
            return _ended(run)
        case _:
            assert_never(run.state)


def _ended(run: RunNode) -> str:
    outcome = run.outcome
    match outcome:
        case None:
            return (run.ended_as or "ended").replace("_", " ")
        case Result():
            how = "answered"
        case UnvalidatedResult():
            how = "answered, not valid"
        case Refusal():
            how = f"declined by the {outcome.by}"
        case DeadLetter():
            how = f"dead letter: {died_text(outcome)}"
        case _:
            assert_never(outcome)
    if run.began is None or run.since is None:
        return how
    return f"{how} after {max(0.0, (run.since - run.began).total_seconds()):.1f} s"


def step_text(step: StepNode, *, show_content: bool) -> str:
    """Which attempt it was, how long it took, what it cost, and what the model said."""
    which = f"attempt {step.attempt}" if step.is_asked else "proposals"
    parts = [f"step {step.n}", which]
    if step.took_ms is not None:
        parts.append(_took(step.took_ms))
    parts += _cost(step.spent)
    if step.chosen:
        parts.append(f"chose {step.chosen}")
    if show_content:
        parts += [f'said "{text}"' for text in step.said]
    return plain_line(" · ".join(parts))


def call_text(call: CallNode, *, show_content: bool) -> str:
    """Which tool, with which arguments, how it ended, and how long it took."""
    args = f" {cut(json_line(call.args))}" if show_content else ""
    if show_content and call.edited_args is not None:
        args = f"{args}, changed to {cut(json_line(call.edited_args))}"
    how = STATES[call.status]
    if call.outcome is not None:
        how = outcome_text(call.outcome, show_content=show_content)
    value = ""
    if show_content and isinstance(call.outcome, outcomes.CallOk):
        value = f" {cut(json_line(call.outcome.value))}"
    if call.reconciled:
        how = f"{how}, found out afterwards"
    parts = [f"{call.tool}{_proposer(call)}{args}", f"{how}{value}"]
    if call.took_ms is not None:
        parts.append(_took(call.took_ms))
    parts += _cost(Spent(micro_usd=call.micro_usd or 0))
    if call.decision is not None:
        parts.append(_decision_text(call.decision))
    if show_content and call.awaits and call.invalid:
        why = problems_text(call.invalid.problems)
        parts.append(f"what {call.invalid.control.by} wrote does not fit: {why}")
    if call.policy is not None:
        parts.append(policy_text(call.policy))
    if call.edited is not None and call.edited.policy is not None:
        parts.append(f"of the changed arguments: {policy_text(call.edited.policy)}")
    return plain_line(" · ".join(parts))


def _decision_text(decision: ControlApplied) -> str:
    control = decision.control
    said_by = None if isinstance(control, Cancel) else control.said_by
    who = f"{control.by} (says {said_by})" if said_by else control.by
    why = "" if isinstance(control, Input) else f": {control.reason}"
    is_edited = isinstance(control, Approval) and control.args is not None
    how = f"changed and {decision.effect}" if is_edited else decision.effect
    return f"{how} by {who}{why}"


def policy_text(policy: PolicyVerdict) -> str:
    """Such as `policy asks (otherwise)`; a policy on trial holds nothing back."""
    verb = {"allow": "allows", "ask": "asks", "deny": "denies"}[policy.verdict]
    rule = "" if policy.rule == policy.verdict else f" ({policy.rule.replace('_', ' ')})"
    on_trial = ", log only" if policy.mode == "log_only" else ""
    return f"policy {verb}{rule}{on_trial}"


def approval_lines(requested: ApprovalRequested) -> tuple[str, ...]:
    """What a person decides on, for whom, until when, and how; ids are whole, to be copied."""
    since, until = utc_text(requested.at), utc_text(requested.expires_at)
    return (
        plain_line(requested.tool),
        *again_lines(requested),
        *args_lines(requested),
        plain_line(f"workflow {requested.workflow_id}, since {since}, until {until}"),
        approve_text(requested.call_id),
    )


def again_lines(requested: ApprovalRequested) -> tuple[str, ...]:
    """A warning about a call that was made before."""
    return (CALLED_BEFORE,) if requested.delivery > 1 else ()


def args_lines(requested: ApprovalRequested, chars_max: int | None = ARGS_CHARS_MAX) -> list[str]:
    """The arguments as a person has to read them, and what of them is not shown."""
    args = shown_args(requested, chars_max)
    lines = args.text.split("\n")
    if args.letters:
        lines.append(plain_line(f"letters beyond ASCII: {', '.join(args.letters)}"))
    if args.is_cut:
        lines.append(f"CUT: {args.hidden:,} more characters; the whole, with its digest, by")
        lines.append(show_text(requested))
    return lines


def show_text(requested: ApprovalRequested) -> str:
    """The command that prints arguments whole."""
    about = f"{requested.call_id} --workflow {shlex.quote(requested.workflow_id)}"
    return plain_line(f"answerbus approvals show {about}")


def awaited_lines(asked: Awaited) -> tuple[str, ...]:
    """The arguments to decide on, or the question to answer."""
    match asked:
        case ApprovalRequested():
            return approval_lines(asked)
        case InputRequested():
            return question_lines(asked)
        case _:
            assert_never(asked)


def question_lines(asked: InputRequested) -> tuple[str, ...]:
    """The question, the form of its answer, for whom, until when, and how."""
    since, until = utc_text(asked.at), utc_text(asked.expires_at)
    to = f", to {asked.to}" if asked.to else ""
    by = (f"The server of {asked.tool} asks, in its own words:",) if asked.tool else ()
    return (
        *map(plain_line, by),
        *(f"│ {plain_line(line)}" for line in asked.question.split("\n")),
        cut(json_line(asked.json_schema)),
        plain_line(f"workflow {asked.workflow_id}{to}, since {since}, until {until}"),
        answer_text(asked.call_id),
    )


def answer_text(call_id: str) -> str:
    """The command for the person who answers."""
    return plain_line(f"answerbus approvals answer {call_id} --value …")


def how_text(asked: Awaited) -> str:
    """The command for the person who is asked."""
    is_question = isinstance(asked, InputRequested)
    return answer_text(asked.call_id) if is_question else approve_text(asked.call_id)


def approve_text(call_id: str) -> str:
    """The command for the person who decides."""
    return plain_line(f"answerbus approvals approve {call_id} --reason …")


def outcome_text(  # noqa: C901, PLR0912 - one arm for each end
    outcome: outcomes.CallOutcome, *, show_content: bool
) -> str:
    """How a call ended; what tools and models said of it only with `show_content`."""
    match outcome:
        case outcomes.CallOk(same_as=str()):
            return "ok, not called again: the result of the step before"
        case outcomes.CallOk():
            return "ok"
        case outcomes.CallError():
            return f"error {outcome.code}" + (f": {outcome.message}" if show_content else "")
        case outcomes.UnknownTool():
            return "no such tool"
        case outcomes.InvalidArgs():
            return f"arguments are not valid: {problems_text(outcome.problems)}"
        case outcomes.Denied():
            return f"denied by {outcome.by}: {outcome.reason}"
        case outcomes.ApprovalExpired():
            return "not approved or answered in time" + _may_have_run(outcome.ran)
        case outcomes.CallTimedOut():
            ran = _may_have_run(outcome.ran) or ", it did not run"
            return f"no result within {outcome.after_s:g} s{ran}"
        case outcomes.ResultTooLarge():
            return f"its result is too large: {outcome.bytes:,} bytes"
        case outcomes.NotRun():
            return f"not run: limit on {outcome.which}"
        case outcomes.ChildDeclined():
            return "declined" + (f": {outcome.reason}" if show_content else "")
        case outcomes.ChildDeadLetter():
            return f"dead letter: {outcome.cause}"
        case outcomes.CallCancelled():
            return f"cancelled by {outcome.by}: {outcome.reason}"
        case _:
            assert_never(outcome)


def _may_have_run(ran: outcomes.Ran) -> str:
    return ", it may have run" if ran == "unknown" else ""


def _proposer(call: CallNode) -> str:
    """The profile that a proposal is asked of, which is a setting and no content."""
    profile = call.args.get("profile") if call.tool == PROPOSE else None
    return f" by {profile}" if isinstance(profile, str) else ""


def cut(text: str) -> str:
    """At most so many characters; a longer text shows that it is cut."""
    return text if len(text) <= LINE_CHARS_MAX else f"{text[: LINE_CHARS_MAX - 1]}…"


def _took(ms: int) -> str:
    return f"{amount(ms) / 1000:.1f} s" if ms >= MILLISECONDS_MAX else f"{ms} ms"


def _cost(spent: Spent) -> Iterator[str]:
    """Tokens and money, as far as providers report them."""
    if spent.tokens:
        yield count_text(spent.tokens, "token")
    if spent.micro_usd:
        yield dollars_of(spent.micro_usd)
