"""Failures and causes as sentences for people, with remedies."""

from collections.abc import Sequence
from typing import assert_never

from answerbus import cause as causes
from answerbus import failure as failures
from answerbus.failure import Problem
from answerbus.limits import ATTEMPTS_DEFAULT


def problem_text(problem: Problem) -> str:
    """Where, what is there, what would have been right, and the rule."""
    if problem.says_itself:
        found = f"{problem.found}: " if problem.found else ""
    else:
        found = f"found {problem.found}; expected: " if problem.found else ""
    return f"{problem.path or 'all of it'}: {found}{problem.expected} ({problem.code})"


def written_text(failure: failures.Failure) -> str:
    """What a model wrote where reading it stopped, for those who may see answers; may be empty."""
    match failure:
        case failures.Malformed(excerpt=excerpt):
            return _quoted("", failure.position, excerpt)
        case failures.Invalid(problems=problems):
            read = (_quoted(p.path, p.position, p.excerpt) for p in problems if p.excerpt)
            return "\n".join(read)
        case _:
            return ""


def _quoted(path: str, position: int | None, excerpt: str) -> str:
    """On one line, as there may be several."""
    if not excerpt:
        return ""
    return f"{path or 'all of it'}, around byte {position or 0}: {' '.join(excerpt.split())}"


def failure_text(failure: failures.Failure) -> str:
    """Why an attempt gave no result."""
    match failure:
        case failures.Malformed():
            return f"the answer is not JSON from byte {failure.position} on"
        case failures.Invalid():
            return "the answer breaks its schema: " + problems_text(failure.problems)
        case failures.Truncated():
            return f"the answer was cut at {failure.limit} tokens"
        case failures.Refused():
            return f"declined: {failure.reason}"
        case failures.Throttled():
            again = failure.retry_after_s
            return "the provider is busy" + ("" if again is None else f" for {again:g} s")
        case failures.Unavailable():
            status = "" if failure.status is None else f" (HTTP {failure.status})"
            fault = "gave no answer" if failure.is_reply else "is not available"
            return f"the provider {fault}{status}"
        case failures.TimedOut():
            return f"no answer within {failure.after_s:g} s"
        case failures.Unknown():
            return "the worker ended during the call"
        case _:
            assert_never(failure)


_NO_SCHEMA = frozenset({"schema", "root"})  # codes of problems


def _is_no_schema(cause: causes.HostileSchema) -> bool:
    return all(problem.code in _NO_SCHEMA for problem in cause.problems)


def died_text(cause: causes.Cause, failed: Sequence[failures.Failure]) -> str:
    """Why there is no answer: the failures of the attempts, then how the request ended."""
    if not failed or not isinstance(cause, causes.BudgetExhausted | causes.DeadlinePassed):
        return cause_text(cause)
    last = failed[-1]
    times = sum(failure.kind == last.kind for failure in failed)
    counted = "once" if times == 1 else f"{times} times"
    if isinstance(last, failures.Invalid):
        why = f"Invalid {counted}: {problems_text(last.problems)}"
    else:
        text = failure_text(last)
        why = f"{text[0].upper()}{text[1:]} ({counted})"
    return f"{why}. {cause_text(cause)}"


def cause_text(cause: causes.Cause) -> str:  # noqa: C901, PLR0912 - one arm for each cause
    """Why a request ended as a dead letter."""
    match cause:
        case causes.UndecodableCause():
            return "The record is an invalid request: " + problems_text(cause.problems)
        case causes.ConflictingId():
            return "The request id is known with another body."
        case causes.MisroutedTwice():
            return "The record was forwarded and still is in the wrong partition."
        case causes.UnknownSchema():
            return "The workers know no such contract."
        case causes.HostileSchema():
            is_invalid = _is_no_schema(cause)
            what = "not a valid JSON Schema" if is_invalid else "too costly or unsafe to check"
            return f"The schema is {what}: {problems_text(cause.problems)}"
        case causes.UnsupportedSchema():
            message = problems_text(cause.problems)
            if cause.dialect == causes.ANY_DIALECT:
                return f"The workers cannot take the schema: {message}"
            return f"The dialect {cause.dialect} cannot carry the schema: {message}"
        case causes.UnknownProfile():
            return "The workers have no profile of that name."
        case causes.RequestTooLarge():
            return "The record is larger than a request may be."
        case causes.AnswerTooLarge():
            return "The answer is larger than a result may be."
        case causes.BudgetExhausted():
            return _spent_text(cause)
        case causes.DeadlinePassed():
            return "The deadline has passed."
        case causes.InvalidAnswer():
            return f"No attempt gave a valid answer; at last, {failure_text(cause.failure)}."
        case causes.RepeatsItself():
            last = failure_text(cause.failure)
            return f"The model gave the same answer {cause.times:,} times: {last}."
        case causes.WaitedTooOften():
            last = failure_text(cause.failure)
            return f"The provider could not do it {cause.waits:,} times; at last, {last}."
        case causes.Rejected():
            status = None if cause.status is None else f"HTTP {cause.status}"
            message = ", ".join(filter(None, (status, cause.code))) or "it does not say why"
            return f"The provider rejects this request without working on it ({message})."
        case causes.CrashedWorker():
            return f"Its lane was opened {cause.openings} times without progress."
        case causes.UnknownAgent():
            return "The workers have no agent of that name and version."
        case causes.UnknownParent():
            return "No open run has asked for such a child."
        case causes.UnverifiedSteps():
            return "It goes on from steps that no operator has sent."
        case causes.MissingTools():
            return f"No tool server has announced {', '.join(cause.tools)}."
        case causes.RunExhausted():
            return f"The limit of {cause.which} of the run was reached before its end."
        case causes.ChildrenFailed():
            return f"No proposal was an answer ({', '.join(dict.fromkeys(cause.ended))})."
        case causes.Cancelled():
            return f"Cancelled by {cause.by}: {cause.reason}"
        case _:
            assert_never(cause)


def _spent_text(cause: causes.BudgetExhausted) -> str:
    which = "dollars" if cause.which == "micro_usd" else cause.which
    if cause.budget is not None:
        return f"The budget {cause.budget} has too little left: {which}."
    if cause.which == "attempts":
        return "The workflow's budget of attempts is spent."
    return f"The workflow's budget of {which} has too little left for another call."


def remedy(  # noqa: C901, PLR0912 - one arm for each cause
    cause: causes.Cause, *, of_run: bool = False
) -> str:
    """The next step for the asking service or an operator."""
    match cause:
        case causes.UndecodableCause() | causes.RequestTooLarge():
            return "Publish a corrected request; the same id may be used."
        case causes.ConflictingId():
            return "Publish it under a new id."
        case causes.MisroutedTwice():
            return "See that all topics have the same number of partitions, then publish it again."
        case causes.UnknownSchema():
            return "Correct name and version, or deploy workers that have the contract."
        case causes.HostileSchema() if _is_no_schema(cause):
            return "Correct the schema."
        case causes.HostileSchema() | causes.UnsupportedSchema(dialect=causes.ANY_DIALECT):
            return "Change the schema: it is refused with every profile."
        case causes.UnsupportedSchema():
            return "Simplify the schema, or ask another profile."
        case causes.UnknownProfile():
            return "Correct the name, or add the profile to the workers' settings."
        case causes.AnswerTooLarge():
            return "Ask for less at once."
        case causes.BudgetExhausted(budget=str()):
            return "Wait for the next day or month of UTC, or raise the budget in the settings."
        case causes.BudgetExhausted(which="attempts") if of_run:
            return (
                "A run takes an attempt for each step and child: ask with more `attempts` in its "
                f"`budget` (one that names none has {ATTEMPTS_DEFAULT}), or replay it with a "
                "budget of its own."
            )
        case causes.BudgetExhausted(which="attempts"):
            return "Replay it with a budget of its own, or ask under another workflow."
        case causes.BudgetExhausted():
            return (
                "A call reserves the most that it may use: ask with a larger budget, lower "
                "`max_output_tokens` of the profile, or replay it with a budget of its own."
            )
        case causes.DeadlinePassed():
            return "Ask again, with a larger time to live if it waited for long."
        case causes.InvalidAnswer():
            return "Look at the problems: reword the instructions, or replay it on another profile."
        case causes.RepeatsItself():
            return "Reword the instructions, or replay it on another profile: budget is left."
        case causes.WaitedTooOften():
            return "Replay it once the provider answers again, or on another profile."
        case causes.Rejected():
            return "See what the provider's code means, and change the request or the profile."
        case causes.CrashedWorker():
            return "Look into the workers' logs before you replay it."
        case causes.UnknownAgent():
            return "Correct name and version, or add the agent to the workers' settings."
        case causes.UnknownParent():
            return "Let the tool pass on the `parent` of its call while that call is open."
        case causes.UnverifiedSteps():
            return "Publish it without `resumed`, or replay the dead letter of the run."
        case causes.MissingTools():
            return "Start the tool server, see `answerbus tools list`, then replay it."
        case causes.RunExhausted():
            return "Raise the agent's limits, or ask for less at once."
        case causes.ChildrenFailed():
            return "See how each child ended, and fix that; then replay it."
        case causes.Cancelled():
            return "Replay it if it was cancelled by mistake."
        case _:
            assert_never(cause)


def problems_text(problems: tuple[Problem, ...]) -> str:
    """The first problem, and how many more there are."""
    first = problem_text(problems[0]) if problems else "(no details)"
    return first + (f", and {len(problems) - 1} more" if len(problems) > 1 else "")
