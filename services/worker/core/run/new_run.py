"""A run from its records: at its beginning, or with the steps that it or another run took."""

from collections.abc import Sequence
from dataclasses import replace

from answerbus.private.runs import (
    AgentDefinition,
    AskedCall,
    Link,
    RunCallRecord,
    RunRecord,
    RunStepRecord,
)
from answerbus.request import Request
from answerbus.resumed_run import ResumedRun
from services.worker.core.run.run import Run, named


def new_run(definition: AgentDefinition, request: Request) -> Run:
    """What was taken over is shown to the model like its own steps, and none of it is repeated.

    It is not in the run's own records, account and counts, but in those of the run that died.
    """
    resumed = request.resumed
    if resumed is None:
        return Run(definition)
    link = Link(number=resumed.number, hash=resumed.previous)
    calls = {
        call.call_id: RunCallRecord(
            request_id=resumed.request_id,
            n=n,
            place=place,
            outcome=call.outcome,
            edited=call.edited,
        )
        for n, step in enumerate(resumed.steps, start=1)
        for place, call in enumerate(step.calls)
    }
    return Run(definition, _steps(resumed, link), calls, link, resumed=len(resumed.steps))


def recovered_run(
    head: RunRecord, steps: Sequence[RunStepRecord], calls: Sequence[RunCallRecord]
) -> Run:
    """Up to the first step that is missing, which an operator has skipped; see `lanes skip`."""
    run = new_run(head.definition, head.request)
    taken = run.steps
    for step in sorted(steps, key=lambda step: step.n):
        if step.n == len(taken) + 1:
            taken = (*taken, step)
    by_id = {
        taken[record.n - 1].calls[record.place].call_id: record
        for record in sorted(calls, key=lambda one: (one.n, one.place))
        if record.n <= len(taken) and record.place < len(taken[record.n - 1].calls)
    }
    links = [step.link for step in (*run.steps, *steps)]
    links += [call.link for call in calls if call.link]
    last = max(links, key=lambda link: link.number, default=None)
    return replace(run, steps=taken, calls={**run.calls, **by_id}, link=last)


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
