"""JSON inside of a text that cannot be read: what was written is kept, and told before all else."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.answers.agent_action import AGENT_ACTION
from answerbus.dead_letter import DeadLetter
from answerbus.failure import Invalid, Problem
from answerbus.limits import EXCERPT_BYTES_MAX, PROBLEM_BYTES_MAX
from answerbus.outcome import RetryRequest
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef
from services.operators.explain import failure_text, problem_text, written_text
from services.worker.core.attempt.check import check
from services.worker.core.attempt.plan import Plan
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision
from services.worker.core.schema.resolved import Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from tests.unit.worker.builders import answered, around, case, decided, plan, request

SCHEMAS = SchemaCache(Registry())
TEXTS: tuple[DialectName, ...] = ("openai", "anthropic", "gemini")
EACH = pytest.mark.parametrize("dialect", TEXTS)
ANYTHING = InlineRef(
    name="n",
    wrapped=False,
    json_schema={
        "type": "object",
        "properties": {"a": {}},
        "required": ["a"],
        "additionalProperties": False,
    },
)
OPEN = InlineRef(
    name="n", wrapped=False, json_schema={"type": "object", "properties": {"b": {"type": "string"}}}
)


def case_of(ref: SchemaRef, dialect: DialectName, *audit_only: str) -> Call:
    compiled = SCHEMAS.compiled(ref, dialect)
    assert not isinstance(compiled, Unusable)
    asked, wire = compiled
    asked = replace(asked, audit_only=frozenset(audit_only))
    return case(request(), plan_=Plan(plan().profile, asked, wire))


def outcome(of: Call, answer: JsonValue, *, spent: int = 1) -> Decision:
    content = json.dumps(answer)
    checked = check(content, of.plan.schema, of.plan.wire)
    return decided(replace(of, reply=answered(content), checked=checked), around(spent, 3))


def call(args: str) -> dict[str, JsonValue]:
    return {"actions": [{"kind": "tool_call", "name": "weather", "args": args}]}


def the_problem(made: Decision) -> Problem:
    assert isinstance(made, RetryRequest)
    assert isinstance(made.failure, Invalid)
    (problem,) = made.failure.problems
    return problem


@EACH
@pytest.mark.parametrize(
    ("args", "position", "excerpt"),
    [
        ("city=Paris", 0, "city=Paris"),
        ('{"city": "Paris"', 15, '{"city": "Paris"'),
        ("", 0, ""),
        ('["Paris"]', 0, '["Paris"]'),
        ("é" * 500, 0, "é" * 64),
    ],
)
def test_what_the_model_wrote_is_in_the_problem(
    dialect: DialectName, args: str, position: int, excerpt: str
) -> None:
    problem = the_problem(outcome(case_of(AGENT_ACTION.ref, dialect), call(args)))

    assert (problem.path, problem.code) == ("/actions/0/args", "json_text")
    assert (problem.position, problem.excerpt) == (position, excerpt)
    assert problem.found
    assert (
        problem.expected.startswith("Its arguments as a JSON object") or "JSON" in problem.expected
    )


@EACH
@pytest.mark.parametrize("spent", [1, 3])
def test_the_answer_is_kept_as_it_was_written(dialect: DialectName, spent: int) -> None:
    of, answer = case_of(AGENT_ACTION.ref, dialect), call("city=Paris")

    made = outcome(of, answer, spent=spent)

    assert isinstance(made, RetryRequest | DeadLetter)
    assert made.prior[-1].answer == answer


@EACH
def test_the_next_prompt_shows_it_and_says_what_was_wrong_first(dialect: DialectName) -> None:
    of, answer = case_of(AGENT_ACTION.ref, dialect), call("city=Paris")
    made = outcome(of, answer)
    assert isinstance(made, RetryRequest)

    *_, own, complaint = of.plan.prompt(of.request, made.prior).turns

    assert (own.role, json.loads(own.text)) == ("assistant", answer)
    reported = complaint.text
    wrong = "found text that is not JSON from byte 0 on (city=Paris) at /actions/0/args: expected "
    assert wrong in reported


@EACH
@pytest.mark.parametrize(
    ("ref", "answer"),
    [
        (ANYTHING, {"a": {"json_text": "city=s3cret"}}),
        (ANYTHING, {"a": {"json_text": "{}", "b": "s3cret"}}),
        (OPEN, {"b": "x", "null_or_extra_json": "{s3cret"}),
        (OPEN, {"b": "x", "null_or_extra_json": '{"b": "s3cret"}'}),
        (AGENT_ACTION.ref, call("city=s3cret")),
    ],
)
def test_nothing_of_it_is_shown_where_some_may_be_for_auditors_alone(
    dialect: DialectName, ref: SchemaRef, answer: JsonValue
) -> None:
    reported = outcome(case_of(ref, dialect), answer)
    problem = the_problem(reported)
    assert problem.found
    assert isinstance(reported, RetryRequest)
    assert "s3cret" in reported.model_dump_json(include={"prior"})

    untold = outcome(case_of(ref, dialect, "why"), answer)
    letter = outcome(case_of(ref, dialect, "why"), answer, spent=3)

    assert the_problem(untold).position == problem.position
    assert isinstance(untold, RetryRequest)
    assert isinstance(letter, DeadLetter)
    for made in (untold, letter):
        assert "s3cret" not in made.model_dump_json()


def test_a_person_who_may_not_see_answers_is_shown_problems_without_their_content() -> None:
    made = outcome(case_of(AGENT_ACTION.ref, "openai"), call("city=s3cret"))
    problem = the_problem(made)
    assert isinstance(made, RetryRequest)

    for text in (problem_text(problem), failure_text(made.failure)):
        assert "s3cret" not in text
        assert text.index("not JSON from byte 0 on") < text.index("Its arguments")
    assert written_text(made.failure) == "/actions/0/args, around byte 0: city=s3cret"


def test_a_problem_has_room_for_all_of_it_whatever_is_long() -> None:
    long: dict[str, Any] = {"found": "f" * 900, "excerpt": "ü" * 900, "position": 9}
    problem = Problem.of("/p" * 900, "c" * 900, "e" * 900, **long)

    texts = (problem.path, problem.code, problem.expected, problem.found, problem.excerpt)
    assert sum(len(text.encode()) for text in texts) <= PROBLEM_BYTES_MAX
    assert all(texts)
    assert len(problem.excerpt.encode()) <= EXCERPT_BYTES_MAX
    assert problem.under("") == problem


def test_a_problem_that_quotes_nothing_is_written_as_it_always_was() -> None:
    """Hashes of attempts are of what is written."""
    assert Problem.of("/a", "b", "c").model_dump(mode="json") == {
        "path": "/a",
        "code": "b",
        "expected": "c",
    }
