"""What the model is asked: every question is one request of a workflow of its own."""

from dataclasses import dataclass
from typing import Literal

from answerbus.budget import Budget
from answerbus.limits import TTL_S_MAX
from answerbus.request import Context, ContractRef, Fact, Request, SchemaRef

ATTEMPTS = 3  # where mending is what is looked at
ATTEMPTS_ELSEWHERE = 2
Part = Literal["contracts", "inline", "mending"]


@dataclass(frozen=True, slots=True)
class Question:
    """`group` is the row of the report that it counts in; `profile` one of the survey's."""

    id: str
    part: Part
    group: str
    asked: SchemaRef
    instructions: str
    facts: tuple[Fact, ...] = ()

    @property
    def profile(self) -> str:
        """Who is to mend answers does not see the schema, so that the first answer often fails."""
        return "unseen" if self.part == "mending" else "shown"

    @property
    def attempts(self) -> int:
        """The budget: a busy machine writes a few tokens a second."""
        return ATTEMPTS if self.part == "mending" else ATTEMPTS_ELSEWHERE

    def request(self) -> Request:
        """The event that asks it."""
        return Request(
            request_id=self.id,
            workflow_id=self.id,
            answer_schema=self.asked,
            context=Context(instructions=self.instructions, facts=self.facts),
            profile=self.profile,
            budget=Budget(attempts=self.attempts),
            ttl_s=TTL_S_MAX,
        )


def of_contract(name: str, number: int, instructions: str, facts: tuple[Fact, ...]) -> Question:
    """A question for a contract that ships."""
    return Question(
        id=f"contracts-{name}-{number:02}",
        part="contracts",
        group=f"{name} v1",
        asked=ContractRef(name=name, version=1),
        instructions=instructions,
        facts=facts,
    )
