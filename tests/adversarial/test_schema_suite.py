"""The official JSON Schema test suite: a verdict is the suite's, or the schema is refused."""

from collections import Counter
from typing import Any

import jsonschema_rs
import pytest

from answerbus.dead_letter import HostileSchema, UnsupportedSchema
from answerbus.failure import Invalid
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import anthropic, gemini, llama_cpp, openai
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
from services.worker.dialects.compiler.shapes.rules import Rules
from tests.corpora import corpora
from tests.encoding import encode, is_read_back
from tests.schema_suite import DRAFTS, groups

FILES = [pytest.param(file, id=f"{file.draft}/{file.path}") for file in corpora().suite()]
# In this file the suite takes formats for annotations, as 2020-12 does by default; we assert them.
ANNOTATED_FORMATS = "draft2020-12/format.json"


@pytest.mark.parametrize("file", FILES)
def test_verdicts_are_those_of_the_suite(file: Any) -> None:
    for schema, tests in groups(file):
        compiled = compile_schema(schema)
        if not isinstance(compiled, SchemaValidator):
            continue
        for test in tests:
            problems = compiled.problems(test["data"])
            if f"{file.draft}/{file.path}" == ANNOTATED_FORMATS:
                assert {problem.code for problem in problems} <= {"format"}
            else:
                assert (not problems) == test["valid"], (test["description"], problems)


def is_leap_second_elsewhere(value: Any) -> bool:
    """A minute of 61 seconds at another hour than in UTC: no pattern of bearable length says it."""
    return isinstance(value, str) and ":60" in value and not value.endswith(("Z", "z", "00:00"))


@pytest.mark.parametrize(
    "rules",
    [openai.RULES, anthropic.RULES, gemini.RULES, llama_cpp.RULES],
    ids=lambda rules: rules.dialect,
)
@pytest.mark.parametrize("file", FILES)
def test_every_valid_instance_survives_the_wire(file: Any, rules: Rules) -> None:
    for schema, tests in groups(file):
        known, wire = compile_schema(schema), None
        if isinstance(known, SchemaValidator):
            wire = compile_shapes(known.document.root, rules)
        if not isinstance(known, SchemaValidator) or not isinstance(wire, Compiled):
            continue
        for test in tests:
            reported = not (rules is llama_cpp.RULES and is_leap_second_elsewhere(test["data"]))
            if reported and not known.problems(test["data"]):
                written = encode(wire, test["data"])
                assert jsonschema_rs.is_valid(wire.schema, written, validate_formats=True)
                read = wire.decode(written)
                assert not isinstance(read, Invalid)
                assert is_read_back(read, test["data"], rules)


# Groups of other files that refer to a metaschema, or to a schema that another server has.
REMOTE_ELSEWHERE = {
    ("draft2020-12", "defs.json"): 1,
    ("draft2020-12", "ref.json"): 1,
    ("draft2020-12", "optional/cross-draft.json"): 1,
    ("draft7", "definitions.json"): 1,
    ("draft7", "ref.json"): 1,
}


def test_only_references_that_leave_the_document_are_refused() -> None:
    refused = Counter(
        (type(compiled), compiled.problems[0].code, file.draft, file.path)
        for file in corpora().suite()
        for schema, _ in groups(file)
        if not isinstance(compiled := compile_schema(schema), SchemaValidator)
        if file.path != "refRemote.json"
    )

    assert refused == {
        (UnsupportedSchema, "reference", *place): count for place, count in REMOTE_ELSEWHERE.items()
    } | {(HostileSchema, "root", draft, "boolean_schema.json"): 1 for draft in DRAFTS}
