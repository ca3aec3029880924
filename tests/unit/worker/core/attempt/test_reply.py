"""A reply decides whether its call counts, and what it used."""

import pytest

from answerbus.budget import Usage
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
    facts_of,
    is_counted,
)

FACTS = CallFacts(usage=Usage(input_tokens=7, output_tokens=2))


@pytest.mark.parametrize(
    ("reply", "counted", "facts"),
    [
        (Answered("{}", FACTS), True, FACTS),
        (Refused("no", FACTS), True, FACTS),
        (Truncated(9, FACTS), True, FACTS),
        (NoAnswer(200, FACTS), True, FACTS),
        (Unavailable(500, ran=True, facts=FACTS), True, FACTS),
        (Unavailable(503, ran=False), False, CallFacts()),
        (TimedOut(60.0), True, CallFacts()),
        (Throttled(1.0), False, CallFacts()),
        (Rejected("request", 400, None), False, CallFacts()),
        (Rejected("profile", 401, None), False, CallFacts()),
    ],
)
def test_a_call_counts_if_the_model_may_have_worked_on_it(
    reply: Reply, counted: bool, facts: CallFacts
) -> None:
    assert (is_counted(reply), facts_of(reply)) == (counted, facts)
