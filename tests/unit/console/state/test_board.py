"""The board: what is counted, by the minute, and what is forgotten."""

from collections import Counter

import pytest

from answerbus.topics import RETRIES
from services.console.state.board import KEPT_MINUTES, NAMES_MAX, NONE, OTHERS, Board, Calls, Rate
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored


def board_of(*records: Stored) -> Board:
    board = Board()
    for record in records:
        board.take(summarize(record))
    return board


def test_outcomes_are_counted_in_the_minute_that_kafka_gives_them() -> None:
    board = board_of(
        stored("result/dep_bump", NOON_MS),
        stored("result/dep_bump", NOON_MS + MINUTE_MS - 1),
        stored("refusal/by_model", NOON_MS + MINUTE_MS),
        stored("dead_letter/unknown_profile", NOON_MS - 2 * MINUTE_MS),
        stored("unvalidated_result/invalid", NOON_MS - 3 * MINUTE_MS),
    )

    window = board.window(NOON_MS + MINUTE_MS, 3, 3)

    assert window.outcomes == {
        "result": (0, 2, 0),
        "unvalidated_result": (0, 0, 0),
        "refusal": (0, 0, 1),
        "dead_letter": (0, 0, 0),
    }
    assert board.window(NOON_MS + MINUTE_MS, 6, 2).outcomes["dead_letter"] == (1, 0)


def test_rates_are_told_apart_by_contract_and_model() -> None:
    model = body_of("result/dep_bump")["model"]
    other = {**model, "model": "other"}
    board = board_of(
        stored("result/dep_bump", attempt=1),
        stored("result/dep_bump", attempt=2),
        stored("result/dep_bump", attempt=3, model=other),
        stored("refusal/by_model"),
        stored("dead_letter/unknown_profile"),
    )

    assert board.window(NOON_MS, 1, 1).total.rates == {
        ("plan_proposal.v1", model["model"]): Rate(3, 1, 2, 1),
        ("plan_proposal.v1", "other"): Rate(1, 0, 1, 1),
        ("plan_proposal.v1", NONE): Rate(1, 0, 0, 0),
    }


def test_calls_and_what_they_cost_are_added_up() -> None:
    usage = {"input_tokens": 100, "output_tokens": 11, "micro_usd": 5}
    board = board_of(
        stored("attempt/result", usage=usage),
        stored("attempt/retry", usage=usage),
        stored("attempt/unknown", usage={}, model=None),
    )

    total = board.window(NOON_MS, 1, 1).total
    assert (total.calls, total.tokens, total.micro_usd) == (3, 222, 10)
    assert total.profiles == {"default": Calls(made=2, answered=2)}


@pytest.mark.parametrize(
    ("failures", "is_sick"),
    [
        (["unavailable", "timed_out", "throttled"], True),
        (["unavailable", "unavailable"], False),  # too few to say
        (["unavailable", "unavailable", "unavailable", "invalid"], False),  # the model answered
    ],
)
def test_a_profile_is_sick_when_no_call_was_answered(failures: list[str], is_sick: bool) -> None:
    board = board_of(*(stored("attempt/retry", failure={"kind": kind}) for kind in failures))

    assert board.unhealthy(NOON_MS) == (("default",) if is_sick else ())
    assert board.unhealthy(NOON_MS + 10 * MINUTE_MS) == ()


def test_a_provider_that_has_just_gone_away_is_named_by_its_last_calls() -> None:
    def told(*failures: str) -> tuple[str, ...]:
        answered = stored("attempt/result")
        failed = [stored("attempt/retry", failure={"kind": kind}) for kind in failures]
        return board_of(answered, answered, *failed).unhealthy(NOON_MS)

    assert told("unavailable", "timed_out", "unavailable") == ("default",)
    assert told("unavailable", "unavailable", "unavailable", "invalid") == ()
    assert told("throttled", "throttled", "throttled", "throttled") == ()  # asks for time
    assert told("unavailable", "unavailable") == ()


def test_who_waits_for_a_retry_is_known_until_it_ends() -> None:
    first = stored("retry_request/unavailable", request_id="r-1")
    second = stored("retry_request/throttled", request_id="r-2")
    ended = Stored(RETRIES, 0, 9, NOON_MS, b"r-1", None, ())
    board = board_of(first, first, second)

    assert board.waiting == Counter({("default", "unavailable"): 1, ("default", "throttled"): 1})

    board.take(summarize(ended))

    assert board.waiting == Counter({("default", "throttled"): 1})


def test_a_day_is_kept_and_no_more() -> None:
    board = board_of(
        stored("result/dep_bump", NOON_MS - KEPT_MINUTES * MINUTE_MS),
        stored("result/dep_bump", NOON_MS - (KEPT_MINUTES - 1) * MINUTE_MS),
        stored("result/dep_bump", NOON_MS),
        stored("result/dep_bump", NOON_MS - KEPT_MINUTES * MINUTE_MS),
    )

    assert board.window(NOON_MS, 2 * KEPT_MINUTES, 1).outcomes["result"] == (2,)


def test_names_from_outside_do_not_grow_it_without_end() -> None:
    board = Board()
    for n in range(NAMES_MAX + 50):
        schema = {"kind": "inline", "name": f"s{n}", "wrapped": True, "digest": "x"}
        model = {**body_of("attempt/result")["model"], "profile": f"p{n}"}
        board.take(summarize(stored("result/dep_bump", schema=schema)))
        board.take(summarize(stored("attempt/result", model=model)))

    total = board.window(NOON_MS, 1, 1).total
    assert len(total.rates) == len(total.profiles) == NAMES_MAX + 1
    assert total.rates[OTHERS, OTHERS].terminals == 50
    assert total.profiles[OTHERS].made == 50
