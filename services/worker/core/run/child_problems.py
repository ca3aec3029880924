"""Why a child cannot be asked, in words for the model that wants it; pure."""

from answerbus.cause import MissingTools, UnknownAgent
from answerbus.dead_letter import Cause, HostileSchema, UnsupportedSchema
from answerbus.failure import Problem
from answerbus.private.runs import AgentDefinition
from answerbus.request import Request
from services.worker.core.run.proposing import wrong_form


def of_agent(found: UnknownAgent | MissingTools) -> Problem:
    """Its agent cannot begin."""
    return Problem.of("/agent", found.kind, "an agent whose tools are there")


def of_form(request: Request, definition: AgentDefinition) -> Problem | None:
    """Its agent answers in another form than the one that is asked for."""
    problem = wrong_form(request, definition.best_of) if definition.best_of else None
    if problem is None:
        return None
    return Problem.of(
        "/agent", problem.code, f"another agent: this one answers by {problem.expected}"
    )


def of_plan(cause: Cause) -> tuple[Problem, ...]:
    """Its schema or its profile cannot be used."""
    match cause:
        case HostileSchema(problems=problems) | UnsupportedSchema(problems=problems):
            whole = Problem.of("", "schema", "a JSON Schema that can be asked for")
            return tuple(one.under("/json_schema") for one in problems or (whole,))
        case _:
            return (Problem.of("/profile", cause.kind, "a profile that there is"),)


def of_step(cause: Cause) -> Problem:
    """Its schema can be asked for, but not beside the tools of its agent."""
    expected = "a smaller JSON Schema, or an agent with fewer tools"
    match cause:
        case HostileSchema(problems=(first, *_)) | UnsupportedSchema(problems=(first, *_)):
            expected = f"{expected}: together {first.expected}"
        case _:
            pass
    return Problem.of("/json_schema", cause.kind, expected)
