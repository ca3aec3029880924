"""A step of a run that its composition decides in place of its model; pure."""

from dataclasses import dataclass, field

from answerbus.budget import Spent
from services.worker.core.run.made_child import Children
from services.worker.core.schema.resolved import AcceptedStep


@dataclass(frozen=True, slots=True)
class ComputedStep:
    """A step that no model is asked for; its `children` leave `reserved_minimum` to the run."""

    step: AcceptedStep
    reserved_minimum: Spent
    children: Children = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FreeBudget:
    """The allowance of a run now, with all that it asks; None means no limit."""

    attempts: int
    tokens: int | None
    micro_usd: int | None

    def has(self, tokens: int, micro_usd: int) -> bool:
        """Whether so much is left, beside attempts."""
        has_tokens = self.tokens is None or tokens <= self.tokens
        return has_tokens and (self.micro_usd is None or micro_usd <= self.micro_usd)
