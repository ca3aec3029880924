"""Nearly JSON, as models write it: malformed is told apart exactly, and never becomes a result."""

from typing import Any

import pytest

from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.failure import Invalid, Malformed
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef, TextRef
from services.worker.core.asked import Accepted, Unusable
from services.worker.core.check import Checked, check
from services.worker.dialects.choose import DialectName
from services.worker.schema_cache import SchemaCache
from tests.corpora import corpora

CASES = [
    pytest.param(case, id=str(case.get("id", number)))
    for number, case in enumerate(corpora().model_outputs())
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
REFS: list[tuple[DialectName, SchemaRef]] = [
    (dialect, ref)
    for dialect in ("openai", "prompted")
    for ref in (
        PLAN_PROPOSAL.ref,
        InlineRef(name="action", wrapped=False, json_schema=ACTION),
        InlineRef(name="action", wrapped=True, json_schema=ACTION),
        InlineRef(name="any", wrapped=False, json_schema={"type": "object"}),
    )
]


SCHEMAS = SchemaCache(Registry([PLAN_PROPOSAL]))


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


@pytest.mark.parametrize("case", CASES)
def test_any_of_it_is_a_text_unchanged(case: Any) -> None:
    assert checked(case["raw"], "openai", TextRef()) == Accepted(case["raw"])


@pytest.mark.parametrize("case", CASES)
def test_what_is_json_is_read_as_it_stands(case: Any) -> None:
    anything = InlineRef(name="any", wrapped=False, json_schema=True)
    if case.get("syntax") == "json":
        assert isinstance(checked(case["raw"], "prompted", anything), Accepted)
