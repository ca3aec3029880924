"""A run's record of a step, and the last step of a run that chose an answer; pure."""

from answerbus.budget import AccountState, Usage
from answerbus.private.runs import AskedCall, Link, RunStepRecord
from answerbus.step import Step
from services.worker.core.run import events
from services.worker.core.run.events import UNHASHED, RunInputs
from services.worker.core.run.run import Run
from services.worker.core.schema.resolved import AcceptedStep, Chosen


def step_record(
    run: Run, step: AcceptedStep, attempt: int, calls: tuple[AskedCall, ...], inputs: RunInputs
) -> RunStepRecord:
    """The part of a step that the run keeps for later prompts and calls."""
    return RunStepRecord(
        workflow_id=inputs.scope,
        request_id=inputs.request.request_id,
        n=len(run.steps) + 1,
        attempt=attempt,
        said=step.said,
        thoughts=step.thoughts if run.definition.remember_thoughts else (),
        calls=calls,
        model=inputs.model,
        frame=inputs.frame,
        at=inputs.now,
        link=Link(number=1, hash=UNHASHED),  # until the event says it
    )


def selected(
    run: Run, attempt: int, usage: Usage, chosen: Chosen, account: AccountState, inputs: RunInputs
) -> tuple[Run, Step]:
    """The step for readers, and the run with its chain behind that; no record is kept of it."""
    message = f"{chosen.reference} was chosen: {chosen.reason}"
    step = AcceptedStep((message,), (), (), None)
    record = step_record(run, step, attempt, (), inputs)
    record = record.model_copy(update={"usage": usage})
    event, link = events.step_event(run, record, (), account, inputs, chosen.call_id)
    return run.with_step(record.model_copy(update={"link": link})), event
