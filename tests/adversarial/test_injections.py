"""Prompt injections stay material: fenced whole, without power over the call or its outcome."""

import json
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import JsonValue

from answerbus import failure
from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.registry import Registry
from answerbus.request import InlineRef, Prior, SchemaRef
from services.worker.core.attempt.check import check
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt, build
from services.worker.core.outcome.decision import Decision
from services.worker.core.schema.resolved import Unusable
from services.worker.dialects.schema_cache import SchemaCache
from tests.corpora import corpora
from tests.oracle import is_valid
from tests.unit.worker.builders import answered, around, case, decided, plan, request

TEXTS = [pytest.param(case["text"], id=case["id"]) for case in corpora().injections()]
SCHEMAS = SchemaCache(Registry())
FENCED = re.compile(r"<data ([0-9a-f]{12}) ([a-z ]+)>\n(.*?)\n</data \1>", re.DOTALL)
NUMBER: dict[str, JsonValue] = {"type": "number"}


def plan_of(ref: SchemaRef) -> Plan:
    compiled = SCHEMAS.compiled(ref, "openai")
    assert not isinstance(compiled, Unusable)
    return Plan(plan().profile, *compiled)


def prompt_with(text: str) -> Prompt:
    """A prompt with the text in each place where a third party's words may stand."""
    ref = InlineRef(name="n", description=text[:500], json_schema=NUMBER)
    asked: Any = {
        "answer_schema": ref.model_dump(),
        "context": {
            "instructions": "Do it.",
            "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": text}],
            "facts": [{"name": "plain", "value": text}, {"name": "deep", "value": {"a": [text]}}],
        },
    }
    prior = (
        Prior(attempt=1, failure=failure.Refused(reason=text[:500])),
        Prior(attempt=2, failure=failure.Truncated(limit=9), answer=text),
    )
    return build(request(**asked), plan_of(ref).wire, prior, 1_000)


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_stands_whole_within_fences_and_nothing_else_changes(text: str) -> None:
    of, harmless = prompt_with(text), prompt_with("Nice weather.")
    data = [[*FENCED.findall(turn.text)] for turn in of.turns]
    around = [FENCED.sub("", turn.text) for turn in of.turns]
    mark = next(mark for turn in data for mark, label, _ in turn if label == "fact")

    assert (of.system, of.wire.text) == (harmless.system, harmless.wire.text)
    assert of.max_output_tokens == harmless.max_output_tokens
    assert [turn.role for turn in of.turns] == ["user", "assistant", "user", "assistant", "user"]
    own_words = json.dumps(text, ensure_ascii=False)
    assert [*around[:3], around[4]] == [
        FENCED.sub("", turn.text) for turn in [*harmless.turns[:3], harmless.turns[4]]
    ], "nothing of it stands outside of a fence"
    assert around[3] == own_words, "but for what the model itself has answered, as JSON"
    assert mark not in text
    assert [[(label, inside) for _, label, inside in turn] for turn in data] == [
        [
            ("description of output", text[:500]),
            ("fact", f"plain:\n{text}"),
            ("fact", "deep:\n" + json.dumps({"a": [text]}, ensure_ascii=False, indent=1)),
            ("message", text),
        ],
        [("message", text)],
        [("problems", f"declined: {text[:500]}")],
        [],
        [("problems", "cut at 9 tokens; answer more briefly")],
    ]


def outcome(ref: SchemaRef, content: str, policy: dict[str, Any]) -> tuple[Plan, Decision]:
    of = plan_of(ref)
    checked = check(content, of.schema, of.wire)
    asked = case(request(policy=policy), plan_=of)
    call = replace(asked, reply=answered(content), checked=checked)
    return of, decided(call, around(3, 3))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "at_last", ["dead_letter", "text", pytest.param("unvalidated", marks=pytest.mark.long)]
)
def test_a_model_that_follows_an_injection_cannot_leave_the_type_that_was_asked_for(
    text: str, at_last: str
) -> None:
    """It may repeat the text as its whole answer, or put it where the answer has room for text."""
    refusal: dict[str, JsonValue] = {"kind": "refuse", "reason": "policy_block", "detail": "x"}
    selection: JsonValue = {"element_id": None, "error": text[:500]}
    obedient: list[JsonValue] = [
        text,
        {"answer": refusal | {"detail": text[:500], "rationale": text[:500]}},
        {"answer": {"kind": "dep_bump", "manifest_path": text, "package": text}},
        {"actions": [{"kind": "tool_call", "name": "x", "args": json.dumps({"a": text})}]},
        {"success": True, "output": text, "notes": [text], "failure_reason": text},
        {"answer": selection},
    ]
    refs: list[SchemaRef] = [contract.ref for contract in Registry()]
    refs.append(InlineRef(name="n", json_schema=NUMBER))
    seen = set()
    for ref in refs:
        for answer in obedient:
            of, made = outcome(ref, json.dumps(answer), {"at_last": at_last})
            seen.add(type(made).__name__)
            assert isinstance(made, (*get_args(AnyOutcome), Result))
            assert not isinstance(made, UnvalidatedResult) or at_last == "unvalidated"
            if isinstance(made, Refusal):
                assert ref == PLAN_PROPOSAL.ref
                assert made.answer == refusal | {"detail": text[:500]}
            if isinstance(made, Result):
                assert_is_of_its_type(of, made.answer)
    assert {"Refusal", "Result[JsonValue]"} < seen


def assert_is_of_its_type(of: Plan, answer: JsonValue) -> None:
    known: dict[object, Any] = {contract.id: contract for contract in Registry()}
    if of.schema.id in known:
        assert is_valid(known[of.schema.id].schema(), answer)
    else:
        assert isinstance(answer, dict)
        assert answer["output"] is None or is_valid(NUMBER, answer["output"])
