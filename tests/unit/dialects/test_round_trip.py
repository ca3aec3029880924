"""Every valid answer can be written under the wire schema, and is read back as it was."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from pydantic import JsonValue

from services.worker.core.authority import Authority, compile_schema
from services.worker.dialects import anthropic, gemini, llama_cpp, openai
from services.worker.dialects.rules import Rules
from services.worker.dialects.wire import Compiled, compile_shapes
from tests.encoding import encode
from tests.oracle import is_valid
from tests.schemas import SCHEMAS, recursive
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
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def without_nulls(value: JsonValue) -> JsonValue:
    """What is left out and what is null travel alike where both are allowed."""
    match value:
        case dict():
            return {n: without_nulls(member) for n, member in value.items() if member is not None}
        case list():
            return [without_nulls(item) for item in value]
        case _:
            return value


@EACH
@MANY
@given(SCHEMAS | recursive(), st.data())
def test_what_is_valid_survives_the_wire(rules: Rules, made, data: DataObject) -> None:  # type: ignore[no-untyped-def]
    authority = compile_schema(made.schema)
    compiled = compile_shapes(made.schema, rules)
    assert isinstance(authority, Authority)
    assume(isinstance(compiled, Compiled))  # a union of nothing, say
    assert isinstance(compiled, Compiled)
    answer = data.draw(made.answers)
    assume(not authority.problems(answer))
    written = encode(compiled, answer)
    read = compiled.decode(written)

    assert faults(compiled.schema, rules.dialect.partition(",")[0]) == []
    assert is_valid(compiled.schema, written)
    assert without_nulls(read) == without_nulls(answer)  # type: ignore[arg-type]


@EACH
@MANY
@given(SCHEMAS | recursive(), st.data())
def test_nothing_that_is_written_breaks_the_reader(rules: Rules, made, data: DataObject) -> None:  # type: ignore[no-untyped-def]
    compiled = compile_shapes(made.schema, rules)
    assume(isinstance(compiled, Compiled))
    assert isinstance(compiled, Compiled)

    compiled.decode(data.draw(made.answers))
