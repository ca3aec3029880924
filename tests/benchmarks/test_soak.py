"""What a long run says about growth."""

import json
from itertools import islice

from tests.benchmarks.soak import KINDS, Watch, published


def test_growth_is_distinguished_from_filling_up() -> None:
    watch = Watch()
    for minute in range(30):
        filling = min(100.0 + 10 * minute, 200.0)
        watch.note({"memory": filling, "tasks": 100.0 + 10 * minute, "ledger": 0.0})

    grown = watch.grown()
    assert grown["memory"] == 0.0
    assert grown["tasks"] > 0.3
    assert grown["ledger"] == 0.0


def test_each_round_has_requests_of_all_kinds() -> None:
    found = [value for _, value in islice(published("soak"), KINDS)]
    whole = [json.loads(value) for value in found if value.endswith(b"}")]
    ids = [body["request_id"] for body in whole]

    assert len(whole) == KINDS - 1, "one is cut"
    assert len(ids) - len(set(ids)) == 1, "one is a copy"
    assert {body["answer_schema"]["name"] for body in whole} == {
        *("plan_proposal", "agent_action", "nobody_has_it")
    }
