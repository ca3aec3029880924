"""Estimates the cost of a replay from the earlier attempts of its requests; pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.operators.dead_letters.row import DeadLetterRow


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """`known` of `letters` have attempts that are still kept; the others count as their average."""

    dead_letters: int
    known: int
    attempts: int
    tokens: int
    micro_usd: int


def estimated_cost(dead_letters: Iterable[DeadLetterRow]) -> CostEstimate | None:
    """None where no attempt of them is known, so that nothing can be said."""
    count = known = attempts = tokens = micro_usd = 0
    for dead_letter in dead_letters:
        count += 1
        if dead_letter.cost is None:
            continue
        known += 1
        attempts += dead_letter.cost.attempts
        tokens += dead_letter.cost.tokens or 0
        micro_usd += dead_letter.cost.micro_usd or 0
    if not known:
        return None
    scaled = (round(total * count / known) for total in (attempts, tokens, micro_usd))
    return CostEstimate(count, known, *scaled)
