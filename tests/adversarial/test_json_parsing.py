"""The JSON parsing suite, as texts of answers and of schemas: told apart, nothing mended."""

from typing import Any

import pytest

from answerbus import json_text
from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.failure import Invalid, Malformed
from answerbus.json_values import has_more_values
from answerbus.limits import ANSWER_VALUES_MAX
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef
from services.worker.core.attempt.check import Checked, TooLarge, check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.corpora import corpora

CASES = [pytest.param(case, id=case.name) for case in corpora().parsing()]
REFUSED_ON_PURPOSE = "duplicated_key"  # RFC 8259 allows it, and readers differ on what it means
REFS: list[tuple[DialectName, SchemaRef]] = [
    ("openai", PLAN_PROPOSAL.ref),
    ("prompted", PLAN_PROPOSAL.ref),
    ("openai", InlineRef(name="any", wrapped=True, json_schema=True)),
    ("prompted", InlineRef(name="any", wrapped=False, json_schema=True)),
    ("openai", InlineRef(name="list", wrapped=False, json_schema={"type": "array"})),
]


def compiled(dialect: DialectName, ref: SchemaRef) -> tuple[ResolvedSchema, WireSchema]:
    asked = resolve(ref, Registry([PLAN_PROPOSAL]))
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for(dialect, asked)
    assert isinstance(wire, WireSchema)
    return asked, wire


COMPILED = [compiled(dialect, ref) for dialect, ref in REFS]
ANYTHING = COMPILED[3]


def checked(text: bytes, asked: ResolvedSchema, wire: WireSchema) -> Checked | None:
    """What an answer comes to; None for bytes that no provider's text could be made of."""
    try:
        content = text.decode()
    except UnicodeDecodeError:
        return None
    return check(content, asked, wire)


@pytest.mark.parametrize("case", CASES)
def test_an_answer_is_malformed_exactly_if_it_is_read_and_no_json(case: Any) -> None:
    result = checked(case.text, *ANYTHING)

    if REFUSED_ON_PURPOSE in case.name:
        assert isinstance(result, Malformed)
    elif case.expect == "y":
        assert isinstance(result, Accepted)
    elif has_more_values(case.text, ANSWER_VALUES_MAX):
        assert isinstance(result, Invalid)  # it was not read
    elif case.expect == "n":
        assert result is None or isinstance(result, Malformed)
    for asked, wire in COMPILED:
        other = checked(case.text, asked, wire)
        assert isinstance(other, Malformed) == isinstance(result, Malformed)
        assert isinstance(other, Accepted | Malformed | Invalid | TooLarge | None)


@pytest.mark.parametrize("case", CASES)
def test_a_schema_is_read_by_the_same_reader(case: Any) -> None:
    parsed = json_text.parse(case.text)

    if REFUSED_ON_PURPOSE in case.name:
        assert isinstance(parsed, json_text.NotJson)
    elif case.expect == "y":
        assert isinstance(parsed, json_text.Parsed)
    assert isinstance(parsed, json_text.NotJson) or case.expect != "n"
    if isinstance(parsed, json_text.Parsed) and isinstance(parsed.value, dict | bool):
        resolve(InlineRef(name="x", json_schema=parsed.value), Registry([]))
