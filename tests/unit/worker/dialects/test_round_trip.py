"""Every valid answer can be written under the wire schema, and is read back as it was."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from answerbus import json_text
from answerbus.failure import Invalid
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import anthropic, gemini, llama_cpp, openai
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
from services.worker.dialects.compiler.shapes.reach import reached
from services.worker.dialects.compiler.shapes.rules import Rules
from tests.encoding import encode, exactly, is_read_back, without_nulls
from tests.oracle import is_valid
from tests.schemas import ANYTHING, SCHEMAS, free_alone, free_beside_typed, recursive
from tests.strict_subset import faults

pytestmark = pytest.mark.wide

# So little room that small schemas are too much already.
TIGHT = replace(anthropic.RULES, dialect="anthropic, tight", optional_max=1, unions_max=1)
EACH = pytest.mark.parametrize(
    "rules",
    [openai.RULES, anthropic.RULES, gemini.RULES, llama_cpp.RULES, TIGHT],
    ids=lambda rules: rules.dialect,
)
MANY = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@EACH
@MANY
@given(SCHEMAS | recursive() | free_beside_typed() | free_alone(), st.data())
def test_what_is_valid_survives_the_wire(rules: Rules, made, data: DataObject) -> None:  # type: ignore[no-untyped-def]
    authority = compile_schema(made.schema)
    compiled = compile_shapes(made.schema, rules)
    assert isinstance(authority, SchemaValidator)
    assume(isinstance(compiled, Compiled))  # a union of nothing, say
    assert isinstance(compiled, Compiled)
    answer = data.draw(made.answers)
    assume(not authority.problems(answer))
    written = encode(compiled, answer)
    sent = json_text.parse(json.dumps(written).encode())
    assert isinstance(sent, json_text.Parsed)
    read = compiled.decode(sent.value)

    assert faults(compiled.schema, rules.dialect.partition(",")[0]) == []
    assert is_valid(compiled.schema, written)
    assert not isinstance(read, Invalid)
    assert is_read_back(read, answer, rules)
    if without_nulls(answer) == answer:  # else null and "left out" may be mixed
        meanings = [compiled.read(sent.value, otherwise=way).answer for way in (False, True)]
        assert exactly(answer) in [exactly(one) for one in meanings if not isinstance(one, Invalid)]


@EACH
@MANY
@given(SCHEMAS | recursive(), st.data())
def test_nothing_that_is_written_breaks_the_reader(rules: Rules, made, data: DataObject) -> None:  # type: ignore[no-untyped-def]
    """And places that it does not look at mean the same where it does."""
    compiled = compile_shapes(made.schema, rules)
    assume(isinstance(compiled, Compiled))
    assert isinstance(compiled, Compiled)
    written = data.draw(made.answers | ANYTHING)
    all_shapes = frozenset(reached(compiled.shapes, compiled.shapes.root))
    looked_at = compiled if rules.verbatim else replace(compiled, rewritten=all_shapes)

    assert repr(compiled.read(written)) == repr(
        looked_at.read(written)
    )  # 1 is neither 1.0 nor True
