"""What a replay will probably cost, from the attempts of these very requests."""

from typing import Any

from answerbus.topics import ATTEMPTS
from services.operators.dead_letters.estimate import CostEstimate, estimated_cost
from services.operators.dead_letters.row import BudgetAmounts
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.dead_letters.examples import dead_letter_body, folded
from tests.unit.operators.stored_examples import stored

USAGE = {"input_tokens": 100, "output_tokens": 20, "micro_usd": 50}


def attempt(request_id: str, number: int, offset: int = 0, **members: Any) -> Stored:
    found = stored(
        "attempt/retry",
        offset=offset,
        request_id=request_id,
        workflow_id="w-0",
        attempt=number,
        **{"usage": USAGE, **members},
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


def test_a_call_without_reported_usage_counts_as_what_was_charged() -> None:
    charged = {"attempts": 1, "tokens": 900, "micro_usd": 700}
    dead_letters = folded(dead_letter_body("r-1"))
    for one in (attempt("r-1", 1), attempt("r-1", 2, 1, usage={}, charged=charged)):
        dead_letters.take(summarize(one))

    assert estimated_cost(dead_letters) == CostEstimate(
        1, 1, attempts=2, tokens=1020, micro_usd=750
    )


def test_a_call_that_was_lost_with_its_worker_counts_and_changes_no_model() -> None:
    charged = {"attempts": 1, "tokens": 900, "micro_usd": 700}
    lost = attempt("r-1", 2, 1, outcome="unknown", model=None, usage={}, charged=charged)
    unused = attempt("r-1", 3, 2, outcome="released", model=None, usage={}, counted=False)
    dead_letters = folded(dead_letter_body("r-1"))
    for one in (attempt("r-1", 1), lost, unused):
        dead_letters.take(summarize(one))
    (found,) = dead_letters

    assert found.cost == BudgetAmounts(2, 1020, 750)
    assert found.model is not None


def test_of_nothing_known_nothing_is_said() -> None:
    assert estimated_cost(folded(dead_letter_body("r-1"))) is None
    assert estimated_cost([]) is None
