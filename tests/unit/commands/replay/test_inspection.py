"""What `replay show` says of a dead letter."""

from services.commands.replay.inspection import _request
from tests.unit.operators.dead_letters.examples import dead_letter_event


def test_of_one_that_was_too_large_to_hold_its_request_it_says_where_that_is() -> None:
    cut = dead_letter_event().model_copy(update={"request": None})

    assert str(_request(cut)) == "It was too large to hold its request. That is at t-0@0."
