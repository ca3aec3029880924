"""Whole numbers with a fraction or an exponent: integers for JSON Schema, and so for the codec."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from answerbus.envelope import ReceivedRequest, Undecodable, decode, decode_request
from answerbus.event import Event
from services.text.digest import canonical_digest
from services.worker.core.budget.ledger import sum_of

FOLDER = Path(__file__).parents[2] / "contracts"
EXAMPLES = sorted((FOLDER / "examples").rglob("*.json"))


def with_fractions(value: Any) -> Any:
    """As a language writes it that knows doubles alone."""
    match value:
        case bool():
            return value
        case int():
            return float(value)
        case list():
            return [with_fractions(item) for item in value]
        case dict():
            return {name: with_fractions(member) for name, member in value.items()}
        case _:
            return value


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_event_means_the_same_with_doubles(path: Path) -> None:
    written = json.loads(path.read_bytes())

    read = decode(json.dumps(with_fractions(written)).encode())

    assert not isinstance(read, Undecodable)
    assert read == decode(path.read_bytes())


def request(budget: str, ttl_s: str, fact: str = "1") -> bytes:
    return (
        '{"kind":"request","request_id":"r-1","workflow_id":"w-1","misspelt":1.0,'
        '"answer_schema":{"kind":"contract","name":"plan_proposal","version":1.0},'
        f'"context":{{"instructions":"x","facts":[{{"name":"f","value":{fact}}}]}},'
        f'"budget":{budget},"ttl_s":{ttl_s}}}'
    ).encode()


def received(value: bytes) -> ReceivedRequest:
    found = decode_request(value)
    assert isinstance(found, ReceivedRequest)
    return found


@pytest.mark.parametrize("ttl_s", ["60.0", "6e1", "6.0E+1", "600e-1", "60"])
def test_a_request_may_spell_integers_as_json_schema_allows(ttl_s: str) -> None:
    plain = received(request('{"attempts":3,"tokens":20000,"micro_usd":0}', "60", "3.0"))

    found = received(request('{"attempts":3e0,"tokens":2e4,"micro_usd":-0.0}', ttl_s, "3.0"))

    assert found.request == plain.request
    assert type(found.request.ttl_s) is int
    assert found.unknown_fields == ("/misspelt",)
    assert canonical_digest(found.body) == canonical_digest(plain.body), "a copy is a duplicate"


def test_what_is_no_integer_of_ours_stays_as_it_was_written() -> None:
    found = received(request('{"attempts":1.0}', "60", '[3.0,1e300,{"a":12345678901234567890}]'))

    value = found.request.context.facts[0].value
    assert json.dumps(value) == '[3.0, 1e+300, {"a": 12345678901234567890}]'


def test_a_whole_number_may_have_an_exponent() -> None:
    found = received(request('{"tokens":1e18}', "60"))

    assert found.request.budget.tokens == 10**18
    again = received(found.request.model_dump_json().encode())
    assert again.request == found.request


@pytest.mark.parametrize("attempts", ["1.0", "1.5", "-1.0", "1e7", "1e6", "0.0", '"1"', "true"])
def test_schema_and_codec_take_the_same_budgets(attempts: str) -> None:
    schema = json.loads((FOLDER / "schemas/events/request.v1.json").read_bytes())
    value = request(f'{{"attempts":{attempts}}}', "60")

    is_valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(value))

    assert isinstance(decode_request(value), ReceivedRequest) == is_valid


def test_a_fault_is_reported_though_another_number_is_whole() -> None:
    found = decode_request(request('{"attempts":1.0,"tokens":1.5}', "60.0"))

    assert isinstance(found, Undecodable)
    assert [(fault.path, fault.code) for fault in found.problems] == [
        ("/budget/tokens", "int_type")
    ]


def test_results_of_tools_may_count_in_doubles() -> None:
    reported = b"""{"kind":"tool_progress","call_id":"r-1.call.1.0","workflow_id":"w-1",
        "token":"AAAAAAAAAAAAAAAAAAAAAA==","note":"page 3","n":3.0}"""

    read: Event | Undecodable = decode(reported)

    assert not isinstance(read, Undecodable)
    assert read.kind == "tool_progress"
    assert read.n == 3


@pytest.mark.parametrize("amount", [2**63 - 1, 2**63, 9.3e18, 10**400])
def test_a_larger_budget_counts_as_the_largest_that_others_can_read(amount: float) -> None:
    request = json.loads((FOLDER / "examples/request/minimal.json").read_bytes())
    request["budget"] = {"attempts": 3, "tokens": amount, "micro_usd": amount}

    received = decode_request(json.dumps(request).encode())

    assert isinstance(received, ReceivedRequest)
    budget = received.request.budget
    assert (budget.tokens, budget.micro_usd) == (2**63 - 1, 2**63 - 1)
    assert sum_of(budget, budget) == budget.model_copy(update={"attempts": 6})


LARGE = 10**30
FAILURES = [
    {"kind": "malformed", "position": LARGE, "excerpt": ""},
    {"kind": "truncated", "limit": LARGE},
    {"kind": "unavailable", "status": -LARGE},
    {
        "kind": "invalid",
        "problems": [{"path": "", "code": "json_text", "expected": "", "position": LARGE}],
    },
]
STEP = {
    "attempt": LARGE,
    "calls": [
        {
            "call_id": "r-1.call.1.0",
            "tool": "orders.get_order",
            "args": {},
            "args_digest": "sha256:" + "0" * 64,
            "outcome": {"kind": "too_large", "bytes": LARGE, "excerpt": ""},
        }
    ],
}


def test_each_integer_of_a_request_can_be_read_by_others() -> None:
    """Outcomes repeat a request, its replay and its parent, and readers have 64 bits for each."""
    request = json.loads((FOLDER / "examples/request/resumed.json").read_bytes())
    request["answer_schema"] = {"kind": "contract", "name": "plan_proposal", "version": LARGE}
    request["agent"]["version"] = request["replay"]["round"] = request["resumed"]["number"] = LARGE
    request["resumed"]["steps"] = [STEP]
    numbers = {"depth": LARGE, "floor": LARGE, "cap": LARGE}
    request["parent"] = {"request_id": "r-0", "call_id": "r-0.call.1.0", **numbers}
    request["prior"] = [{"attempt": LARGE, "times": LARGE, "failure": it} for it in FAILURES]

    body = received(json.dumps(request).encode()).request.model_dump_json()

    assert body.count(str(2**63 - 1)) == 20
    assert body.count(str(-(2**63))) == 1
    assert str(LARGE) not in body
