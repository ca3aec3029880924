"""The schema of a run's next step."""

import json
from dataclasses import dataclass
from typing import Self

from answerbus.agent import Malformed
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from answerbus.request import Request, SchemaRef
from services.worker.core.run.agents import agent_id
from services.worker.core.run.delegation import may_delegate, may_use
from services.worker.core.run.run import Run
from services.worker.core.run.step_schema import resolve_step
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, Unusable


@dataclass(frozen=True, slots=True)
class StepSchema:
    """Which schema a step has: `text` is the same exactly where it is.

    `uses`: it delegates, and a child may be given something.
    """

    definition: AgentDefinition
    digest: str  # of the agent
    answer: SchemaRef
    finishes: bool
    delegates: bool
    malformed: Malformed | None
    uses: bool

    @classmethod
    def first(cls, definition: AgentDefinition, request: Request) -> Self:
        """That of the first step of a run that has attempts left, at its largest."""
        delegates, has_facts = definition.delegate is not None, bool(request.context.facts)
        return cls.of(
            definition, request.answer_schema, finishes=False, delegates=delegates, uses=has_facts
        )

    @classmethod
    def of(
        cls,
        definition: AgentDefinition,
        answer: SchemaRef,
        *,
        finishes: bool,
        delegates: bool,
        uses: bool,
    ) -> Self:
        """That of a step of a run that has not begun."""
        digest = agent_id(definition).digest
        return cls(definition, digest, answer, finishes, delegates, None, delegates and uses)

    @classmethod
    def after(cls, run: Run, request: Request, *, finishes: bool) -> Self:
        """That of the next step of a run."""
        delegates = may_delegate(request, run)
        malformed = request.agent.malformed if request.agent else None
        uses = delegates and may_use(request, run)
        answer, digest = request.answer_schema, run.agent.digest
        return cls(run.definition, digest, answer, finishes, delegates, malformed, uses)

    @property
    def text(self) -> str:
        """The cache key of the compiled schema."""
        how = self.finishes, self.delegates, self.malformed, self.uses
        return json.dumps([self.digest, *how, self.answer.model_dump_json()])

    def resolved(self, registry: Registry) -> ResolvedSchema | Unusable:
        final = resolve(self.answer, registry)
        if isinstance(final, Unusable):
            return final
        return resolve_step(
            self.definition,
            final,
            must_finish=self.finishes,
            may_delegate=self.delegates,
            malformed=self.malformed,
            may_use=self.uses,
        )
