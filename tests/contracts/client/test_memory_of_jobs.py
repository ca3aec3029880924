"""A job keeps the outcomes of its rows in little memory, and gives them as they were."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from answerbus.client.answer_type import AnswerType
from answerbus.client.job import JobOutcomes, JobProgress, KeptOutcome, RowOutcome
from answerbus.client.workflow_outcomes import WorkflowOutcomes
from answerbus.envelope import decode, encode
from answerbus.outcome import Result
from answerbus.registry import Registry
from answerbus.request import Context, Request, TextRef
from tests.integration.answering import result

EXAMPLES = [
    path
    for kind in ("result", "unvalidated_result", "refusal", "dead_letter")
    for path in sorted(Path("contracts/examples", kind).glob("*.json"))
]
ROWS = 100
BYTES_MAX = 2_048  # of a row; as an event an outcome takes 5 KiB


class Route(BaseModel):
    team: str


def outcome_of(number: int) -> Result[Any]:
    request = Request(
        request_id=f"row-{number}",
        workflow_id="job",
        answer_schema=TextRef(),
        context=Context(instructions="Which team?"),
    )
    return result(request, {"team": f"team {number}"})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_any_outcome_is_read_as_it_was(path: Path) -> None:
    outcome: Any = decode(path.read_bytes())
    row = RowOutcome(3, {"n": 1}, outcome)

    assert KeptOutcome.of(row).read() == row


def test_the_answer_stays_the_very_object() -> None:
    answers = AnswerType.of(Route, Registry(()))
    rows = [RowOutcome(n, {}, answers.typed_outcome(outcome_of(n))) for n in range(3)]
    job = JobOutcomes("job", JobProgress(3), tuple(map(KeptOutcome.of, rows)))

    assert [*job] == rows
    assert job[-1] == rows[-1]
    assert [*job[1:]] == rows[1:]
    assert isinstance(rows[0].outcome, Result)
    assert job[0].outcome.unwrap() is rows[0].outcome.answer


def _rows_of_a_job() -> object:
    answers = AnswerType.of(Route, Registry(()))
    kept = []
    for number in range(ROWS):
        read: Any = decode(encode(outcome_of(number)).value)
        kept.append(KeptOutcome.of(RowOutcome(number, {}, answers.typed_outcome(read))))
    return kept


def _read_before_they_are_asked_for() -> object:
    outcomes = WorkflowOutcomes()
    for number in range(ROWS):
        value = encode(outcome_of(number)).value
        read: Any = decode(value)
        outcomes.add(read, value)
    return outcomes


@pytest.mark.parametrize("keep", [_rows_of_a_job, _read_before_they_are_asked_for])
def test_an_outcome_is_kept_in_less_than_half_of_its_memory(keep: Callable[[], object]) -> None:
    keep()  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = keep()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    assert (after - before) / ROWS < BYTES_MAX
