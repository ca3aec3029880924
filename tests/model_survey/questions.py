"""What the model is asked: every question is one request of a workflow of its own."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from answerbus.budget import Budget
from answerbus.limits import TTL_S_MAX
from answerbus.request import Context, ContractRef, Fact, Request, SchemaRef

ATTEMPTS = 3  # where mending is what is looked at
ATTEMPTS_ELSEWHERE = 2
TURNS = 4
PROFILE = "surveyed"
UNSEEN = "unseen"  # the same model, which is not shown the schema
Part = Literal["contracts", "inline", "mending", "again"]


@dataclass(frozen=True, slots=True)
class Question:
    """`group` is the row of the report that it counts in."""

    id: str
    part: Part
    group: str
    asked: SchemaRef
    instructions: str
    facts: tuple[Fact, ...] = ()

    @property
    def attempts(self) -> int:
        """The budget: a busy machine writes a few tokens a second."""
        return {"mending": ATTEMPTS, "again": 1}.get(self.part, ATTEMPTS_ELSEWHERE)

    @property
    def profile(self) -> str:
        """Where the rules are to be learned from the problems alone, the schema is not shown."""
        return UNSEEN if self.part in ("mending", "again") else PROFILE

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


def in_turns(questions: Iterable[Question]) -> list[Question]:
    """A quarter of each group after the other, so that a survey cut short has asked of everything.

    Parts and groups keep their order, and so do the questions of a group.
    """
    groups: dict[tuple[Part, str], list[Question]] = {}
    for question in questions:
        groups.setdefault((question.part, question.group), []).append(question)
    placed = [
        (number * TURNS // len(group), question)
        for group in groups.values()
        for number, question in enumerate(group)
    ]
    return [question for _, question in sorted(placed, key=itemgetter(0))]


def of_contract(name: str, number: int, instructions: str, facts: tuple[Fact, ...]) -> Question:
    return Question(
        id=f"contracts-{name}-{number:02}",
        part="contracts",
        group=f"{name} v1",
        asked=ContractRef(name=name, version=1),
        instructions=instructions,
        facts=facts,
    )
