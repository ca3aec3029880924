"""A run at its beginning: without a step, or with those that its request takes over."""

from answerbus.private.runs import AgentDefinition, AskedCall, Link, RunCallRecord, RunStepRecord
from answerbus.request import Request
from answerbus.resumed_run import ResumedRun
from services.worker.core.run.run import Run, named


def new_run(definition: AgentDefinition, request: Request) -> Run:
    """What was taken over is told to the model like its own steps, and nothing of it is repeated.

    It is no part of the run's own records, account and counts: those of the run that died have it.
    """
    resumed = request.resumed
    if resumed is None:
        return Run(definition)
    link = Link(number=resumed.number, hash=resumed.previous)
    calls = {
        call.call_id: RunCallRecord(
            request_id=resumed.request_id, n=n, place=place, outcome=call.outcome
        )
        for n, step in enumerate(resumed.steps, start=1)
        for place, call in enumerate(step.calls)
    }
    return Run(definition, _steps(resumed, link), calls, link, resumed=len(resumed.steps))


def _steps(resumed: ResumedRun, link: Link) -> tuple[RunStepRecord, ...]:
    return tuple(
        RunStepRecord(
            request_id=resumed.request_id,
            n=n,
            attempt=step.attempt,
            said=step.said,
            calls=tuple(AskedCall(**named(call)) for call in step.calls),
            link=link,
        )
        for n, step in enumerate(resumed.steps, start=1)
    )
