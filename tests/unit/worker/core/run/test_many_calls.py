"""A step of as many calls as an answer may have is settled with little work for each."""

from answerbus.limits import STEP_ACTIONS_MAX
from services.worker.core.run import transitions
from services.worker.core.run.run import Run
from tests.function_calls import functions_called
from tests.unit.worker.core.run_builders import ACCOUNT, USAGE, call, definition, inputs, step

FUNCTIONS_MAX = 110  # that are called for each call of the step; 136 with a copy of each event


def test_a_step_of_many_unknown_calls_calls_few_functions_for_each() -> None:
    run = Run(definition())
    many = step(run.definition, *(call(f"unknown{n}") for n in range(STEP_ACTIONS_MAX)))
    around = inputs()

    called = functions_called(
        lambda: transitions.take_step(run, many, 1, USAGE, USAGE, ACCOUNT, around)
    )

    assert called < FUNCTIONS_MAX * STEP_ACTIONS_MAX
