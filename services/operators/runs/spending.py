"""The cost of a run, from its attempts: by step, alone, and with its children; pure."""

from collections.abc import Iterable, Mapping

from answerbus.attempt import Attempt
from answerbus.budget import Spent, Usage
from answerbus.event import Terminal
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.step import Step
from services.operators.records.within_limits import amount


def spent_by_attempt(
    attempts: Mapping[int, Attempt], steps: Iterable[Step], terminal: Terminal | None
) -> Mapping[int, Spent]:
    """By the number of the attempt. Where its own event is not kept, a step or the end tells."""
    called = (step for step in steps if step.composed != "propose")  # which has no attempt
    by_attempt = {step.attempt: _spent(step.usage) for step in called}
    match terminal:
        case Result() | UnvalidatedResult() | Refusal():
            by_attempt[terminal.attempt] = _spent(terminal.usage)
        case _:
            pass
    known = {
        attempt.attempt: _spent(attempt.usage, counted=attempt.counted)
        for attempt in attempts.values()
    }
    return {**by_attempt, **known}


def spent_since(spent: Mapping[int, Spent], before: int, attempt: int) -> Spent:
    """By a step: its attempt, and those that failed since the step `before`."""
    return total(one for number, one in spent.items() if before < number <= attempt)


def total(parts: Iterable[Spent]) -> Spent:
    """All of it together."""
    attempts = tokens = micro_usd = 0
    for part in parts:
        attempts += part.attempts
        tokens += part.tokens
        micro_usd += part.micro_usd
    return Spent(attempts=attempts, tokens=tokens, micro_usd=micro_usd)


def _spent(usage: Usage, *, counted: bool = True) -> Spent:
    tokens = amount(usage.input_tokens or 0) + amount(usage.output_tokens or 0)
    return Spent(attempts=int(counted), tokens=tokens, micro_usd=amount(usage.micro_usd or 0))
