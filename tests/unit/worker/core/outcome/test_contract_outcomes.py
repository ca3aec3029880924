"""What an answer to each contract ends as, from a provider's content to the event."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import JsonValue

from answerbus.answers.agent_action import AGENT_ACTION
from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.answers.proposal import PROPOSAL
from answerbus.answers.selection import SELECTION
from answerbus.answers.specialist import DROPPED_OUTPUT, SPECIALIST
from answerbus.dead_letter import BudgetExhausted, DeadLetter, InvalidAnswer
from answerbus.failure import Invalid, Malformed
from answerbus.limits import ANSWER_BYTES_MAX, NOTES_MAX
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef, TextRef
from services.worker.core.attempt.check import check, check_as_text
from services.worker.core.attempt.plan import Plan
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision
from services.worker.core.schema.resolved import Accepted, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from tests.oracle import is_valid
from tests.unit.worker.builders import answered, around, case, decided, plan, request

SCHEMAS = SchemaCache(Registry())
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
ENFORCED = [dialect for dialect in DIALECTS if dialect != "prompted"]
CALL: dict[str, JsonValue] = {"kind": "tool_call", "name": "search", "args": {"q": 1}}
INLINE = InlineRef(
    name="n", description="A number.", json_schema={"type": "number", "multipleOf": 2}
)


def case_of(
    ref: SchemaRef, dialect: DialectName = "prompted", notes: tuple[str, ...] = (), **policy: str
) -> Call:
    compiled = SCHEMAS.compiled(ref, dialect)
    assert not isinstance(compiled, Unusable)
    asked: Any = {"policy": policy}
    return case(request(**asked), plan_=Plan(plan().profile, *compiled), notes=notes)


def outcome(of: Call, answer: object, *, spent: int = 1) -> Decision:
    """`answer` is a content, or what it says as JSON."""
    content = answer if isinstance(answer, str) else json.dumps(answer)
    checked = check(content, of.plan.schema, of.plan.wire)
    return decided(replace(of, reply=answered(content), checked=checked), around(spent, 3))


def published(of: Call, answer: object, *, spent: int = 1) -> JsonValue:
    made = outcome(of, answer, spent=spent)
    assert isinstance(made, Result), made
    return made.answer


@pytest.mark.parametrize("answer", [CALL, [CALL], {"actions": [CALL]}])
def test_an_action_is_published_in_one_form_whichever_way_it_was_written(answer: object) -> None:
    assert published(case_of(AGENT_ACTION.ref), answer) == {"actions": [CALL]}


def test_a_list_whose_items_are_wrong_is_not_called_too_short() -> None:
    retry = outcome(case_of(AGENT_ACTION.ref), {"actions": [{"kind": "thought", "content": 1}]})
    empty = outcome(case_of(AGENT_ACTION.ref), {"actions": []})

    assert isinstance(retry, RetryRequest)
    assert isinstance(retry.failure, Invalid)
    assert [(problem.path, problem.code) for problem in retry.failure.problems] == [
        ("/actions/0/content", "string_type")
    ]
    assert isinstance(empty, RetryRequest)
    assert isinstance(empty.failure, Invalid)
    assert [problem.code for problem in empty.failure.problems] == ["too_short"]


def test_an_untagged_tool_call_is_published_tagged() -> None:
    of = case_of(AGENT_ACTION.ref)

    assert published(of, {"name": "search", "args": {"q": 1}}) == {"actions": [CALL]}
    assert isinstance(outcome(of, {"content": "said or thought?"}), RetryRequest)


@pytest.mark.parametrize("dialect", ENFORCED)
@pytest.mark.parametrize(
    "answer",
    [
        CALL,
        [CALL],
        {"actions": [{"name": "search", "args": '{"q": 1}'}]},
        {"name": "x", "args": "{}"},
    ],
)
def test_other_forms_are_refused_where_the_provider_enforces_the_schema(
    dialect: DialectName, answer: object
) -> None:
    of = case_of(AGENT_ACTION.ref, dialect)

    assert isinstance(outcome(of, answer), RetryRequest)
    args = '{"q": 1}' if dialect in ("openai", "anthropic", "gemini") else CALL["args"]
    assert published(of, {"actions": [CALL | {"args": args}]}) == {"actions": [CALL]}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "content",
    ["Hello!", '{"kind":"text_response"', "```json\n{}\n```", '"\\ud800"', "", "\0", "[]"],
)
def test_at_last_a_text_that_is_no_answer_becomes_one_unchanged(
    dialect: DialectName, content: str
) -> None:
    of = case_of(AGENT_ACTION.ref, dialect, at_last="text")

    answer = published(of, content, spent=3)

    assert answer == {"actions": [{"kind": "text_response", "content": content}]}
    assert is_valid(AGENT_ACTION.schema(), answer)
    assert isinstance(outcome(of, content, spent=1), RetryRequest), "while budget is left"


def test_at_last_a_text_that_no_event_can_carry_is_a_letter() -> None:
    of = case_of(AGENT_ACTION.ref, at_last="text")

    for content in ("half \ud800", "\0" * (ANSWER_BYTES_MAX // 4)):
        letter = outcome(of, content, spent=3)
        assert isinstance(letter, DeadLetter)
        assert letter.cause == BudgetExhausted(which="attempts")


@pytest.mark.parametrize(
    "ref", [PLAN_PROPOSAL.ref, PROPOSAL.ref, SELECTION.ref, SPECIALIST.ref, INLINE]
)
def test_a_contract_without_a_text_variant_makes_no_answer_of_text(ref: SchemaRef) -> None:
    of = case_of(ref, at_last="text", on_invalid="dead_letter")

    letter = outcome(of, "Hello!")

    assert isinstance(letter, DeadLetter)
    assert isinstance(letter.cause, InvalidAnswer)
    assert isinstance(letter.cause.failure, Malformed)
    assert check_as_text("Hello!", of.plan.schema) is None


def test_a_refusing_variant_ends_as_a_refusal_and_counts() -> None:
    refuse = {"kind": "refuse", "reason": "policy_block", "detail": "Frozen until Monday."}

    refusal = outcome(case_of(PLAN_PROPOSAL.ref), refuse | {"rationale": "the freeze"})

    assert isinstance(refusal, Refusal)
    assert (refusal.by, refusal.category, refusal.reason) == (
        "model", "policy_block", "Frozen until Monday."
    )  # fmt: skip
    assert refusal.answer == refuse
    assert refusal.account.spent.attempts == 1


@pytest.mark.parametrize(
    ("ref", "answer"),
    [
        (SELECTION.ref, {"element_id": None, "error": "no such button"}),
        (PROPOSAL.ref, {"complete": True, "message": "I will not.", "actions": []}),
        (SPECIALIST.ref, {"output": None, "success": False, "notes": [], "failure_reason": "no"}),
    ],
)
def test_a_refusing_answer_of_other_contracts_is_a_result(
    ref: SchemaRef, answer: JsonValue
) -> None:
    made = published(case_of(ref), answer)

    assert isinstance(made, dict)
    assert isinstance(answer, dict)
    assert made | {"notes": []} == answer | {"notes": []}


def test_a_wrapped_answer_holds_the_workers_notes_behind_the_models() -> None:
    of = case_of(INLINE, notes=("unknown field /budgte",))
    content = {"success": True, "output": 4, "notes": ["even"], "failure_reason": None}

    result = outcome(of, content)

    assert isinstance(result, Result)
    assert len(result.notes) > 1
    assert result.notes[0] == "unknown field /budgte"
    assert result.answer == content | {"notes": ["even", *result.notes]}


def test_the_specialist_contract_takes_any_output_but_none() -> None:
    of = case_of(SPECIALIST.ref, notes=("own",))
    wire_notes = list(of.plan.wire.notes)
    loud = {"success": True, "output": {"a": [1]}, "notes": ["n"] + ["m"] * 99}

    answer = published(of, loud)

    assert isinstance(answer, dict)
    assert answer["output"] == {"a": [1]}
    notes = answer["notes"]
    assert isinstance(notes, list)
    assert (len(notes), notes[-1 - len(wire_notes) :]) == (NOTES_MAX, ["own", *wire_notes])
    assert is_valid(SPECIALIST.schema(), answer)
    for output in ({"success": True, "output": None}, {"success": True}):
        retry = outcome(of, output)
        assert isinstance(retry, RetryRequest)
        assert isinstance(retry.failure, Invalid)
        assert retry.failure.problems[0].path == "/output"


def test_an_output_beside_a_reported_failure_is_dropped_and_noted() -> None:
    answer = published(
        case_of(SPECIALIST.ref), {"success": False, "output": 1, "failure_reason": "unsure"}
    )

    assert isinstance(answer, dict)
    assert (answer["output"], answer["failure_reason"]) == (None, "unsure")
    assert answer["notes"] == [DROPPED_OUTPUT, *case_of(SPECIALIST.ref).plan.wire.notes]


def test_plain_text_and_bare_answers_have_no_place_for_notes() -> None:
    assert published(case_of(TextRef(), notes=("own",)), "hello") == "hello"
    bare = InlineRef(name="n", wrapped=False, json_schema={"type": "object"})
    assert published(case_of(bare, notes=("own",)), {"notes": ["n"]}) == {"notes": ["n"]}


def test_what_is_left_of_an_answer_for_the_next_attempt_is_in_the_published_form() -> None:
    of = case_of(AGENT_ACTION.ref)

    retry = outcome(of, [CALL, {"content": "?"}])

    assert isinstance(retry, RetryRequest)
    assert retry.prior[-1].answer == {"actions": [CALL, {"content": "?"}]}
    assert isinstance(check(json.dumps([CALL]), of.plan.schema, of.plan.wire), Accepted)


SECRET = "the auditor alone may read this"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "content",
    [
        '{"kind": "refuse", "rationale": "' + SECRET + '"',
        '{"answer": {"rationale": "' + SECRET + '", "kind": "dep_bump", }}',
        SECRET,
        json.dumps({"answer": {"kind": "refuse", "rationale": {"why": SECRET}}}),
        json.dumps(["kind", {"rationale": SECRET}]),
    ],
)
def test_no_piece_of_a_rationale_is_shown_of_an_unreadable_answer(
    dialect: DialectName, content: str
) -> None:
    """Neither in what the next prompt is made of, nor in what operators and readers see."""
    of = case_of(PLAN_PROPOSAL.ref, dialect)
    at_last = case_of(PLAN_PROPOSAL.ref, dialect, at_last="unvalidated")

    retry, letter = outcome(of, content), outcome(of, content, spent=3)
    last = outcome(at_last, content, spent=3)

    assert isinstance(retry, RetryRequest)
    assert isinstance(letter, DeadLetter)
    assert isinstance(last, DeadLetter | UnvalidatedResult)
    for made in (retry, letter, last):
        assert SECRET not in made.model_dump_json()


def test_an_answer_without_audit_only_fields_is_shown_by_an_excerpt() -> None:
    retry = outcome(case_of(SELECTION.ref), "Sure! {}")

    assert isinstance(retry, RetryRequest)
    assert retry.failure == Malformed(position=0, excerpt="Sure! {}")
