"""A check says of each rule whether a tool server keeps it, and what is wrong."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from answerbus.envelope import Undecodable, decode
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import ToolFailure, ToolOk, ToolResult
from answerbus.toolset_card import ToolCard, ToolsetCard
from services.tools.check.call_by_hand import HandCaller
from services.tools.check.cases import Case, CaseBuilder, Sample
from services.tools.check.judge import card_rulings, fault_of, rulings
from services.tools.session import unproved_approval, wrong_args

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
CALLER = HandCaller("checker", "answerbus.tool-results.v1", 0, "AAAAAAAAAAAAAAAAAAAAAA==")
BUILDER = CaseBuilder(CALLER, "echo", NOW, 30.0)
SAMPLE = Sample("echo", {"phrase": "Hello"}, "ops")
CASES = [
    *BUILDER.without_effects(),
    *BUILDER.with_sample(SAMPLE, wrong_args={}, needs_approval=True),
]
LAST = BUILDER.last()
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"phrase": {"type": "string"}},
    "required": ["phrase"],
}

Results = dict[str, list[ToolResult]]


def result(case: Case, outcome: ToolOk | ToolFailure) -> ToolResult:
    return ToolResult(
        call_id=case.call_id or "", workflow_id=CALLER.name, token=CALLER.token, outcome=outcome
    )


def good() -> Results:
    """What a server does that keeps all rules."""
    found: Results = {}
    for case in (*CASES, LAST):
        if case.call_id is None or case.expected == "nothing":
            continue
        failed = case.expected == "error"
        outcome = ToolFailure(code=case.code or "unknown_tool") if failed else ToolOk(value="Hello")
        found.setdefault(case.call_id, []).append(result(case, outcome))
    return found


def wrong(results: Results, cases: Sequence[Case] = CASES) -> set[str]:
    return {ruling.rule for ruling in rulings(cases, LAST, results) if ruling.verdict == "wrong"}


def named(part: str) -> Case:
    (found,) = (case for case in (*CASES, LAST) if part in case.rule)
    return found


def test_a_server_that_keeps_all_rules_passes() -> None:
    found = list(rulings(CASES, LAST, good()))

    assert {one.verdict for one in found} == {"ok"}
    assert len({one.rule for one in found}) == len(found) > 12


@pytest.mark.parametrize(
    "part",
    ["aborted", "expired", "another toolset"],
)
def test_a_call_that_must_not_be_answered_and_is(part: str) -> None:
    case = named(part)

    assert wrong({**good(), case.call_id or "": [result(case, ToolOk(value=1))]}) == {case.rule}


@pytest.mark.parametrize("part", ["unknown tool", "wrong arguments", "without approval"])
def test_a_call_that_must_fail_and_does_not(part: str) -> None:
    case = named(part)
    for outcome in (ToolOk(value=1), ToolFailure(code="failed")):
        assert wrong({**good(), case.call_id or "": [result(case, outcome)]}) == {case.rule}
    assert wrong({**good(), case.call_id or "": []}) == {case.rule}


def test_a_repeated_call_that_is_answered_in_two_ways() -> None:
    case = named("repeated")
    results = [result(case, ToolOk(value=value)) for value in (1, 2)]

    assert wrong({**good(), case.call_id or "": results}) == {case.rule}


@pytest.mark.parametrize(
    ("number", "said"), [(1, "answered once"), (2, "answered 2 times, always the same")]
)
def test_how_often_a_repeated_call_was_answered_is_said(number: int, said: str) -> None:
    case = named("repeated")
    results = [result(case, ToolOk(value=1))] * number
    found = rulings(CASES, LAST, {**good(), case.call_id or "": results})

    assert [one.said for one in found if one.rule == case.rule] == [said]


def test_a_server_that_dies_of_a_bad_record() -> None:
    found = {ruling.rule: ruling.verdict for ruling in rulings(CASES, LAST, {})}

    assert found["bad JSON is skipped"] == "wrong"
    assert found[LAST.rule] == "wrong"
    assert found["an expired call does not run"] == "skipped"


@pytest.mark.parametrize(
    ("change", "partition", "key", "text"),
    [
        ({}, 0, b"checker", None),
        ({"token": "BBBBBBBBBBBBBBBBBBBBBB=="}, 0, b"checker", "token"),
        ({"workflow_id": "other"}, 0, b"checker", "workflow"),
        ({}, 1, b"checker", "partition 1"),
        ({}, 0, None, "key"),
    ],
)
def test_an_answer_in_the_wrong_place(
    change: dict[str, Any], partition: int, key: bytes | None, text: str | None
) -> None:
    event = result(LAST, ToolOk(value=1)).model_copy(update=change)

    fault = fault_of(CALLER, partition, key, event)

    assert fault is None if text is None else text in (fault or "")


def test_the_calls_of_a_check_are_calls_and_its_junk_is_none() -> None:
    for case in (*CASES, LAST):
        for record in case.records:
            event = decode(record)
            is_call = isinstance(event, ToolCallRecord)
            assert is_call is (case.call_id is not None)
            assert is_call or isinstance(event, Undecodable) or event.kind == "tool_cancel"


def test_without_a_sample_nothing_names_a_tool_that_there_may_be() -> None:
    calls = [decode(record) for case in BUILDER.without_effects() for record in case.records]

    tools = {call.tool for call in calls if isinstance(call, ToolCallRecord)}
    assert tools == {"no-such-tool"}


def card(**changes: Any) -> ToolsetCard:
    tool = ToolCard(name="echo", description="Say it again.", args_schema=SCHEMA)
    return ToolsetCard(toolset="echo", tools=(tool.model_copy(update=changes),))


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        (card(), set()),
        (None, {"card"}),
        (ToolsetCard(toolset="echo", tools=()), {"card"}),
        (ToolsetCard(toolset="echo", tools=card().tools * 2), {"card"}),
        (card(description=" "), {"descriptions"}),
        (card(args_schema={"type": "nothing"}), {"schemas"}),
        (card(args_schema={"type": "string"}), {"schemas"}),
        (card(args_schema={"$ref": "https://elsewhere.example/schema"}), {"schemas"}),
        (card(digest="sha256:" + "0" * 64), {"digests"}),
    ],
)
def test_a_card_that_no_worker_could_use(found: ToolsetCard | None, rules: set[str]) -> None:
    assert {ruling.rule for ruling in card_rulings(found) if ruling.verdict == "wrong"} == rules


def test_wrong_arguments_are_such_as_the_schema_refuses() -> None:
    tool = card().tools[0]

    assert wrong_args(tool) == {"answerbus-check": [None]}
    assert wrong_args(tool.model_copy(update={"args_schema": {"type": "object"}})) is None


def test_a_lock_that_was_not_tried_is_named() -> None:
    """Only the sample's tool is called without approval: a server without the lock would run it."""
    guarded = ToolCard(name="refund", args_schema={"type": "object"}, approval="always")
    offered = ToolsetCard(toolset="orders", tools=(guarded,))

    for sample in (None, Sample("get", {})):
        (ruling,) = unproved_approval(offered, sample)
        assert (ruling.verdict, "--call TOOL" in ruling.said) == ("skipped", True)
    assert list(unproved_approval(offered, Sample("refund", {}))) == []
    assert list(unproved_approval(None, None)) == []
