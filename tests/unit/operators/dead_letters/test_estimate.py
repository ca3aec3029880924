"""What a replay will probably cost, from the attempts of these very requests."""

from typing import Any

from answerbus.topics import ATTEMPTS
from services.operators.dead_letters.estimate import CostEstimate, estimated_cost
from services.operators.dead_letters.row import BudgetAmounts
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.dead_letters.examples import dead_letter_body, folded
from tests.unit.operators.stored_examples import stored


def attempt(request_id: str, number: int, offset: int = 0) -> Stored:
    usage: dict[str, Any] = {"input_tokens": 100, "output_tokens": 20, "micro_usd": 50}
    found = stored(
        "attempt/retry",
        offset=offset,
        request_id=request_id,
        workflow_id="w-0",
        attempt=number,
        usage=usage,
    )
    assert found.topic is ATTEMPTS
    return found


def test_attempts_before_and_after_the_dead_letter_count_each_once() -> None:
    dead_letters = folded(dead_letter_body("r-1"), dead_letter_body("r-2"))
    for one in (attempt("r-1", 1), attempt("r-1", 2, 1), attempt("r-1", 2, 1), attempt("r-3", 1)):
        dead_letters.take(summarize(one))

    assert [dead_letter.cost for dead_letter in dead_letters] == [BudgetAmounts(2, 240, 100), None]


def test_dead_letters_without_known_attempts_count_as_the_average() -> None:
    dead_letters = folded(*(dead_letter_body(f"r-{n}") for n in range(4)))
    for number in (0, 1):
        dead_letters.take(summarize(attempt(f"r-{number}", 1)))

    assert estimated_cost(dead_letters) == CostEstimate(4, 2, attempts=4, tokens=480, micro_usd=200)


def test_of_nothing_known_nothing_is_said() -> None:
    assert estimated_cost(folded(dead_letter_body("r-1"))) is None
    assert estimated_cost([]) is None
