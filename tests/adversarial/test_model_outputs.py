"""Nearly JSON, as models write it: malformed is told apart exactly, and never becomes a result."""

from typing import Any, get_args

import pytest

from answerbus import json_text
from answerbus.answers.agent_action import AGENT_ACTION
from answerbus.contract import Contract
from answerbus.failure import Invalid, Malformed
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef, TextRef
from services.worker.core.attempt.check import Checked, check, check_as_text
from services.worker.core.schema.resolved import Accepted, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from tests.corpora import own_cases
from tests.oracle import is_valid

OUTPUTS: list[Any] = list(own_cases().model_outputs())
CONTRACTS = {contract.name: contract for contract in Registry()}
CASES = [pytest.param(case, id=str(case.get("id", number))) for number, case in enumerate(OUTPUTS)]
OWN = [
    pytest.param(CONTRACTS[case["contract"]], case, id=case["id"])
    for case in OUTPUTS
    if "contract" in case
]
ACTION: Any = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "tool_call"}, "name": {"type": "string"}, "args": {}},
            "required": ["kind", "name", "args"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "text_response"}, "content": {"type": "string"}},
            "required": ["kind", "content"],
            "additionalProperties": False,
        },
    ]
}
ASKED: list[SchemaRef] = [
    *(contract.ref for contract in CONTRACTS.values()),
    InlineRef(name="action", wrapped=False, json_schema=ACTION),
    InlineRef(name="action", wrapped=True, json_schema=ACTION),
    InlineRef(name="any", wrapped=False, json_schema={"type": "object"}),
]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
REFS = [(dialect, ref) for dialect in DIALECTS for ref in ASKED]
SCHEMAS = SchemaCache(Registry())


def checked(content: str, dialect: DialectName, ref: SchemaRef) -> Checked:
    compiled = SCHEMAS.compiled(ref, dialect)
    assert not isinstance(compiled, Unusable)
    return check(content, *compiled)


def is_json(case: Any) -> bool:
    """What the corpus says of a third-party text; its own cases say what they expect instead."""
    return bool(case["syntax"] == "json")


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_json_is_malformed_and_says_where(case: Any) -> None:
    for dialect, ref in REFS:
        result = checked(case["raw"], dialect, ref)
        if "syntax" in case:
            assert isinstance(result, Malformed) != is_json(case)
        if isinstance(result, Malformed):
            assert 0 <= result.position <= len(case["raw"].encode())
        else:
            assert isinstance(result, Accepted | Invalid)


def is_untagged(value: Any) -> bool:
    """Whether an action lacks its tag, which is allowed where the schema is only told."""
    actions = value if isinstance(value, list) else [value]
    return any(isinstance(action, dict) and "kind" not in action for action in actions)


def as_enforced(contract: Contract[Any], value: Any) -> Any:
    """The same answer in the form that a provider is made to give it.

    The corpus knows the contract agent_action as one action or a list of them.
    """
    if contract is AGENT_ACTION:
        return {"actions": value if isinstance(value, list) else [value]}
    return value


@pytest.mark.parametrize(("contract", "case"), OWN)
def test_a_prompted_answer_is_valid_as_its_label_says(contract: Contract[Any], case: Any) -> None:
    result = checked(case["raw"], "prompted", contract.ref)
    parsed = json_text.parse(case["raw"].encode())

    if case["expect"] == "valid":
        assert isinstance(result, Accepted)
        assert isinstance(parsed, json_text.Parsed)
        assert is_valid(contract.schema(), result.answer)
        if contract is AGENT_ACTION:
            assert result.answer == as_enforced(contract, parsed.value)
    elif case["expect"] == "invalid" and isinstance(result, Accepted):
        assert contract is AGENT_ACTION
        assert isinstance(parsed, json_text.Parsed)
        assert is_untagged(parsed.value)
        assert is_valid(contract.schema(), result.answer)


@pytest.mark.parametrize(("contract", "case"), OWN)
def test_an_enforced_answer_is_valid_exactly_as_its_label_says(
    contract: Contract[Any], case: Any
) -> None:
    parsed = json_text.parse(case["raw"].encode())
    if not isinstance(parsed, json_text.Parsed):
        assert case["expect"] != "valid"
        return
    compiled = SCHEMAS.compiled(contract.ref, "prompted")
    assert not isinstance(compiled, Unusable)
    read = compiled[0].read(as_enforced(contract, parsed.value))

    if case["expect"] != "either":
        assert isinstance(read, Accepted) == (case["expect"] == "valid")


@pytest.mark.parametrize("case", CASES)
def test_an_answer_without_an_action_is_an_unchanged_text_where_the_agent_says_so(
    case: Any,
) -> None:
    compiled = SCHEMAS.compiled(AGENT_ACTION.ref, "prompted")
    assert not isinstance(compiled, Unusable)

    assert check_as_text(case["raw"], compiled[0]) == Accepted(
        {"actions": [{"kind": "text_response", "content": case["raw"]}]}
    )


@pytest.mark.parametrize("case", CASES)
def test_any_of_it_is_a_text_unchanged(case: Any) -> None:
    assert checked(case["raw"], "openai", TextRef()) == Accepted(case["raw"])


@pytest.mark.parametrize("case", CASES)
def test_what_is_json_is_read_as_it_stands(case: Any) -> None:
    anything = InlineRef(name="any", wrapped=False, json_schema=True)
    if case.get("syntax") == "json":
        assert isinstance(checked(case["raw"], "prompted", anything), Accepted)
