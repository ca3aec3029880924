"""The next step of a run whose composition decides it: computed, or asked of a model."""

from collections.abc import Callable
from typing import assert_never

from answerbus.dead_letter import Cause
from answerbus.private.runs import BestOf
from answerbus.request import Request
from services.worker.core.attempt.plan import Plan
from services.worker.core.run.composition import ComputedStep, FreeBudget
from services.worker.core.run.run import Run
from services.worker.planning.best_of import best_of
from services.worker.planning.planner import Planner


def asked_profile(request: Request, run: Run | None) -> str:
    """Whose fallbacks are asked: the profile of a request, or that of the next step of its run."""
    rule = run.composition if run else None
    return (rule.answering_profile if rule else None) or request.profile


async def compose(
    planner: Planner, request: Request, run: Run, funds: Callable[[], FreeBudget], profile: str
) -> Plan | Cause | ComputedStep | None:
    """The next step by the composition of a run; None where its model decides.

    `profile` is asked what the composition has a model asked for.
    """
    match run.composition:
        case None:
            return None
        case BestOf() as rule:
            return await best_of(planner, request, run, rule, funds, profile)
        case rule:
            assert_never(rule)
