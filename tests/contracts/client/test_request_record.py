"""A request that no worker could read is refused before it is published."""

import math

import pytest
from pydantic import JsonValue

from answerbus.client.connection import request_record
from answerbus.request import Context, Fact, Request, TextRef


def nested(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


UNREADABLE = {
    "nested": nested(210),
    "many values": [0] * 20_000,
    "no number": [math.nan],
    "infinite": math.inf,
}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_fact_that_no_worker_could_read_is_refused(value: JsonValue) -> None:
    context = Context(instructions="Say hello.", facts=(Fact(name="f", value=value),))
    request = Request(request_id="r", workflow_id="w", answer_schema=TextRef(), context=context)

    with pytest.raises(ValueError, match=r"No worker can read the request: all of it: [^=]+$"):
        request_record(request, None)
