"""The check of an answer: in the event loop, or apart from it where that would take too long."""

from pydantic import JsonValue

from answerbus.failure import Invalid, Problem
from services.worker.core.attempt.check import Checked, check
from services.worker.core.attempt.plan import Plan
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.core.schema.resolved import ResolvedSchema
from services.worker.ports.costly_work import CostlyWork, EndedAtLimit

TOO_COSTLY = Invalid(
    problems=(Problem.of("", "too_costly", "a smaller or simpler value: this one took too long"),)
)


async def is_answer(
    published: JsonValue, schema: ResolvedSchema, costly_work: CostlyWork, owner: str
) -> bool:
    """Whether an answer that was published satisfies a schema."""
    try:
        with sparing():
            return schema.is_valid(published)
    except TooMuchWorkError:
        found = await costly_work.run(owner, schema.is_valid, published)
    return found is True


async def checked(content: str, plan: Plan, costly_work: CostlyWork, owner: str) -> Checked:
    """Checks a provider's content; `owner` is the workflow that asked."""
    try:
        with sparing():
            return check(content, plan.schema, plan.wire)
    except TooMuchWorkError:
        found = await costly_work.run(owner, check, content, plan.schema, plan.wire)
    return TOO_COSTLY if isinstance(found, EndedAtLimit) else found
