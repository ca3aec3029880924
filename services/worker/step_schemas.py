"""The schema of a run's next step."""

import json
from dataclasses import dataclass
from typing import Self

from answerbus.agent import Malformed
from answerbus.private.runs import AgentDefinition
from answerbus.request import SchemaRef
from services.worker.core.run.run import Run
from services.worker.core.run.step_schema import resolve_step
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.schema_cache import SchemaCache


@dataclass(frozen=True, slots=True)
class StepSchema:
    """Which schema a step has: `text` is the same exactly where it is."""

    run: Run
    answer: SchemaRef
    finishes: bool
    delegates: bool
    malformed: Malformed | None

    @classmethod
    def first(cls, definition: AgentDefinition, answer: SchemaRef) -> Self:
        """That of the first step of a run that has attempts left, at its largest."""
        return cls(
            Run(definition),
            answer,
            finishes=False,
            delegates=definition.delegate is not None,
            malformed=None,
        )

    @property
    def text(self) -> str:
        """What it is kept under once it is compiled."""
        how = self.finishes, self.delegates, self.malformed
        return json.dumps([self.run.agent.digest, *how, self.answer.model_dump_json()])

    def resolved(self, schemas: SchemaCache) -> ResolvedSchema | Unusable:
        """The authority on it."""
        final = schemas.resolved(self.answer)
        if isinstance(final, Unusable):
            return final
        return resolve_step(
            self.run.definition,
            final,
            must_finish=self.finishes,
            may_delegate=self.delegates,
            malformed=self.malformed,
        )
