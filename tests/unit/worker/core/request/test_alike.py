"""Requests that wait hold once what they have alike."""

import json
from typing import Any

from answerbus.request import Request
from services.worker.core.request.lane_request import with_interned_parts
from tests.unit.worker import builders

STATED = {"budget": {"attempts": 3}, "policy": {"ordering": "none"}}


def read(request_id: str, **more: Any) -> Request:
    """A request of its own, as from a record of its own."""
    return Request.model_validate_json(json.dumps(builders.body(request_id, **more)))


def test_parts_that_are_equal_are_one() -> None:
    one, other = (with_interned_parts(read(name, **STATED)) for name in ("r-1", "r-2"))

    assert one.policy is other.policy
    assert one.budget is other.budget
    assert one.answer_schema is other.answer_schema


def test_the_request_is_the_same() -> None:
    inline = {"kind": "inline", "name": "any", "json_schema": {"type": "object"}}
    cases: list[dict[str, Any]] = [{}, STATED, {"answer_schema": inline}]
    for more in cases:
        asked = read("r-1", **more)
        shared = with_interned_parts(asked)

        assert shared == asked
        assert shared.model_dump_json() == asked.model_dump_json()
        assert shared.model_fields_set == asked.model_fields_set


def test_parts_that_differ_stay_apart() -> None:
    one = with_interned_parts(read("r-1", budget={"attempts": 3}))
    other = with_interned_parts(read("r-2", budget={"attempts": 4}))

    assert (one.budget.attempts, other.budget.attempts) == (3, 4)
