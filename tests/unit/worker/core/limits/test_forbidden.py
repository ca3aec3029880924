"""When a status 403 is about one request, and not about its profile."""

import pytest

from services.worker.core.attempt.reply import Rejected, Reply
from services.worker.core.limits.forbidden import NOT_FORBIDDEN, judged
from tests.unit.worker.builders import answered

FORBIDDEN = Rejected("profile", 403, None)
OF_REQUEST = Rejected("request", 403, None)
Round = tuple[Reply, float, float]  # what it got, when, and when the last served call began


@pytest.mark.parametrize(
    ("rounds", "last"),
    [
        ([(FORBIDDEN, 10, 5), (FORBIDDEN, 20, 15), (FORBIDDEN, 30, 25)], OF_REQUEST),
        # Calls that began before it was forbidden are served still.
        ([(FORBIDDEN, 10, 5), (FORBIDDEN, 20, 9), (FORBIDDEN, 30, 10)], FORBIDDEN),
        # A call takes longer than until it is asked again.
        ([(FORBIDDEN, 10 * n, 10 * n - 15) for n in range(1, 6)], OF_REQUEST),
        # Two profiles forbid it in turn, as they do all by now.
        ([(FORBIDDEN, 10 * n, 5 + n % 2) for n in range(1, 9)], FORBIDDEN),
        # Each step of a run is another prompt, which is judged by itself.
        ([(FORBIDDEN, 10, 5), (answered(), 15, 5)] * 9 + [(FORBIDDEN, 20, 15)], FORBIDDEN),
    ],
)
def test_a_403_is_of_the_request_while_calls_that_began_later_are_served(
    rounds: list[Round], last: Reply
) -> None:
    known, found = NOT_FORBIDDEN, rounds[0][0]
    for reply, now, served_since in rounds:
        found, known = judged(reply, known, now, served_since)

    assert found == last
