"""The source of a run's next step: its model, or a composition of children; pure.

A `Composition` is the one place for others of its kind: each says which step comes next.
"""

from dataclasses import dataclass

from answerbus.budget import Spent
from answerbus.private.runs import AgentDefinition, BestOf
from services.worker.core.schema.resolved import AcceptedStep


@dataclass(frozen=True, slots=True)
class ModelSteps:
    """The model decides, in each of its answers."""


Composition = ModelSteps | BestOf


def composition_of(definition: AgentDefinition) -> Composition:
    """What an agent's definition says of it."""
    return definition.best_of or ModelSteps()


@dataclass(frozen=True, slots=True)
class ComputedStep:
    """A step that no model is asked for; its children leave `reserved_minimum` to the run."""

    step: AcceptedStep
    reserved_minimum: Spent


@dataclass(frozen=True, slots=True)
class FreeBudget:
    """What a run may use now, with all that it asks; None is no limit."""

    attempts: int
    tokens: int | None
    micro_usd: int | None

    def has(self, tokens: int, micro_usd: int) -> bool:
        """Whether so much is left, beside attempts."""
        has_tokens = self.tokens is None or tokens <= self.tokens
        return has_tokens and (self.micro_usd is None or micro_usd <= self.micro_usd)
