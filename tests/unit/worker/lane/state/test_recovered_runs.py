"""What is left of a run after an operator has passed one of its records by."""

from collections.abc import Collection

from answerbus.private.runs import RunStepRecord
from services.worker.core.run.run import Run
from services.worker.lane.state.recovered_runs import RecoveredRuns
from tests.unit.worker.core.run_builders import records_of_two_steps


def recovered(without: Collection[int]) -> Run:
    found = RecoveredRuns()
    for record in records_of_two_steps():
        if not (isinstance(record, RunStepRecord) and record.n in without):
            found.take(record, (), 0)
    ((_, _, run),) = found.runs()
    return run


def test_a_run_goes_on_from_the_last_step_before_one_that_is_lost() -> None:
    whole = recovered(())
    assert [step.n for step in whole.steps] == [1, 2]
    assert len(whole.calls) == 2

    for lost in (1, 2):
        left = recovered((lost,))
        assert [step.n for step in left.steps] == list(range(1, lost))
        assert len(left.calls) == lost - 1

    assert recovered((1,)).link == whole.link  # numbers of the chain are not used twice
