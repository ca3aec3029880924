"""Policies: which calls go out, which wait for a person, and which end with their step."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from answerbus.agent import AgentId
from answerbus.budget import Spent, Usage
from answerbus.call_outcome import Denied
from answerbus.control import Approval, ApprovalRequested
from answerbus.policy import PolicyVerdict, ToolPolicy, Verdict
from answerbus.private.runs import RunStepRecord
from answerbus.request import Request
from answerbus.step import Step, ToolEnded
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.policy import compiled, judged_value
from services.worker.core.run.run import Run
from services.worker.core.run.tool_access import ToolAccess
from services.worker.core.schema.resolved import AcceptedStep, WantedCall
from tests.unit.worker.builders import NOW
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    asked,
    definition,
    inputs,
    result,
    sent,
    tool,
)

Json = dict[str, Any]
REFUND: Json = {"type": "object"}


def about_args(required: tuple[str, ...] = (), **properties: Json) -> Json:
    """A rule on arguments."""
    args = {"type": "object", "properties": properties, "required": [*required]}
    return {"type": "object", "properties": {"args": args}, "required": ["args"]}


SMALL = about_args(("amount",), amount={"maximum": 50})
LARGE = about_args(("amount",), amount={"minimum": 1_000})
POLICY = ToolPolicy(allow=SMALL, deny=LARGE)


def run_with(policy: ToolPolicy | None, **card: Any) -> Run:
    refund = tool("orders.refund", REFUND, **card).model_copy(update={"policy": policy})
    return Run(definition(tool(), refund))


def step_of(
    run: Run, *args: Json, of: Request | None = None, access: ToolAccess | None = None
) -> Change:
    """The run after a step that calls the tool once for each of these arguments."""
    calls = tuple(WantedCall("orders.refund", one, None) for one in args)
    given_inputs = inputs(of=of)
    if access:
        given_inputs = replace(given_inputs, tools=access)
    step = AcceptedStep((), calls, (), None)
    attempt = len(run.steps) + 1
    return transitions.take_step(run, step, attempt, USAGE, Usage(), ACCOUNT, given_inputs)


def states(change: Change) -> list[str]:
    (step,) = (event for event in change.written if isinstance(event, Step))
    return [call.state for call in step.calls]


def verdicts(change: Change) -> list[PolicyVerdict | None]:
    (step,) = (event for event in change.written if isinstance(event, Step))
    return [call.policy for call in step.calls]


def test_a_call_is_allowed_asked_for_or_denied_before_anything_is_published() -> None:
    change = step_of(run_with(POLICY), {"amount": 50}, {"amount": 51}, {"amount": 1_000})

    assert states(change) == ["called", "awaits_approval", "ended"]
    assert [call.args for call in sent(change)] == [{"amount": 50}]
    assert [(one.verdict, one.rule) for one in verdicts(change) if one] == [
        ("allow", "allow"),
        ("ask", "otherwise"),
        ("deny", "deny"),
    ]
    (ended,) = (event for event in change.written if isinstance(event, ToolEnded))
    assert isinstance(ended.outcome, Denied)
    assert ended.outcome.by == "policy"
    (wanted,) = (event for event in change.written if isinstance(event, ApprovalRequested))
    assert wanted.args == {"amount": 51}


def test_nobody_is_asked_for_a_call_that_is_answered_from_the_result_of_the_step_before() -> None:
    """It is not made, and so there is nothing to allow."""
    steps: Json = {"properties": {"steps": {"maximum": 0}}}
    run = run_with(ToolPolicy(allow={"properties": {"run": steps}, "required": ["run"]}))
    first = step_of(run, {"amount": 50})
    ended = transitions.on_result(first.run, result(sent(first)[0]), inputs())
    assert ended is not None

    second = step_of(ended.run, {"amount": 50}, {"amount": 51})

    assert states(second) == ["ended", "awaits_approval"]
    (wanted,) = (event for event in second.written if isinstance(event, ApprovalRequested))
    assert wanted.args == {"amount": 51}


def test_the_verdict_stands_in_the_private_record_and_in_the_hash_of_the_step() -> None:
    change = step_of(run_with(POLICY), {"amount": 50})
    (record,) = (event for event in change.written if isinstance(event, RunStepRecord))
    (step,) = (event for event in change.written if isinstance(event, Step))

    assert record.calls[0].policy == step.calls[0].policy == verdicts(change)[0]
    again = step_of(run_with(None), {"amount": 50})
    (without,) = (event for event in again.written if isinstance(event, Step))
    assert step.hash != without.hash
    assert "policy" not in without.model_dump(mode="json")["calls"][0]


def test_deny_is_before_ask_and_ask_before_allow() -> None:
    every: Json = {}
    ask_and_deny = ToolPolicy(allow=every, ask=every, deny=every)
    ask = ToolPolicy(allow=every, ask=every)

    assert states(step_of(run_with(ask_and_deny), {})) == ["ended"]
    assert states(step_of(run_with(ask), {})) == ["awaits_approval"]
    assert states(step_of(run_with(ToolPolicy(allow=every)), {})) == ["called"]


@pytest.mark.parametrize(
    ("otherwise", "state"), [("allow", "called"), ("ask", "awaits_approval"), ("deny", "ended")]
)
def test_a_call_of_no_rule_is_treated_as_otherwise_says(otherwise: Any, state: str) -> None:
    assert states(step_of(run_with(ToolPolicy(otherwise=otherwise)), {})) == [state]


def test_an_approved_call_goes_out_and_a_policy_relaxes_no_card() -> None:
    change = step_of(run_with(POLICY), {"amount": 51})
    (wanted,) = (event for event in change.written if isinstance(event, ApprovalRequested))
    approval = Approval(
        call_id=wanted.call_id,
        args_digest=wanted.args_digest,
        decision="approved",
        by="ops",
        reason="",
        workflow_id=wanted.workflow_id,
        at=NOW,
    )
    approved = transitions.on_approval(change.run, approval, inputs())
    assert isinstance(approved, Change)
    assert [call.args for call in sent(approved)] == [{"amount": 51}]
    stricter = step_of(run_with(POLICY, approval="always"), {"amount": 50}, {"amount": 1_000})
    assert states(stricter) == ["awaits_approval", "ended"]


def test_a_policy_on_trial_is_recorded_and_holds_nothing_back() -> None:
    policy = POLICY.model_copy(update={"mode": "log_only"})
    change = step_of(run_with(policy), {"amount": 51}, {"amount": 1_000})

    assert states(change) == ["called", "called"]
    found = [(one.verdict, one.mode) for one in verdicts(change) if one]
    assert found == [("ask", "log_only"), ("deny", "log_only")]


def test_a_rule_can_be_about_labels_and_what_was_spent() -> None:
    gold: Json = {
        "properties": {
            "labels": {"properties": {"tier": {"const": "gold"}}, "required": ["tier"]},
            "run": {
                "properties": {
                    "steps": {"const": 0},
                    "spent": {"properties": {"attempts": {"maximum": 1}}},
                }
            },
        },
        "required": ["labels", "run"],
    }
    run = run_with(ToolPolicy(allow=gold, otherwise="deny"))

    assert states(step_of(run, {}, of=asked(labels={"tier": "gold"}))) == ["called"]
    assert states(step_of(run, {}, of=asked(labels={"tier": "silver"}))) == ["ended"]
    assert states(step_of(run, {}, of=asked())) == ["ended"]


UNTRUSTED: Json = {
    "properties": {"run": {"properties": {"untrusted_read": {"const": True}}}},
    "required": ["run"],
}


@pytest.mark.parametrize("trusted", [True, False])
def test_effects_are_closed_after_the_result_of_a_tool_that_is_not_trusted(
    trusted: bool,
) -> None:
    closing = ToolPolicy(deny=UNTRUSTED, otherwise="allow")
    refund = tool("orders.refund", REFUND).model_copy(update={"policy": closing})
    run = Run(definition(tool("orders.get").model_copy(update={"trusted": trusted}), refund))
    look = AcceptedStep((), (WantedCall("orders.get", {"order_id": "1"}, None),), (), None)
    clean = asked(context={"instructions": "Help."})
    looked = transitions.take_step(run, look, 1, USAGE, Usage(), ACCOUNT, inputs(of=clean))
    known = transitions.on_result(looked.run, result(sent(looked)[0]), inputs(1, clean))
    assert known is not None

    assert states(step_of(run, {}, of=clean)) == ["called"]
    assert states(step_of(known.run, {}, of=clean)) == ["called" if trusted else "ended"]


def test_what_cannot_be_judged_is_asked_for() -> None:
    unusable = ToolPolicy(allow={"$ref": "http://example.com/x"})
    costly = ToolPolicy(allow=about_args(texts={"allOf": [{"uniqueItems": True}] * 20}))
    many = {"texts": [[str(n)] for n in range(5_000)]}

    (first,) = verdicts(step_of(run_with(unusable), {}))
    assert first is not None
    assert (first.verdict, first.rule) == ("ask", "not_judged")
    change = step_of(run_with(costly), many, {"texts": []})
    assert states(change) == ["awaits_approval", "awaits_approval"], "the step's time is used up"
    found = verdicts(change)
    assert [one and one.rule for one in found] == ["not_judged", "not_judged"]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"amount": None},
        {"amount": "50"},
        {"amount": 10**400},
        {"Amount": 50},
        {"\u0430mount": 50},  # a Cyrillic letter
        {"amount": [50]},
    ],
)
def test_arguments_that_only_look_allowed_are_asked_for(args: Json) -> None:
    policy = ToolPolicy(allow=about_args(("amount",), amount={"type": "integer", "maximum": 50}))
    assert states(step_of(run_with(policy), args)) == ["awaits_approval"]


def test_a_look_alike_in_an_enum_is_not_allowed() -> None:
    euros = about_args(("currency",), currency={"enum": ["EUR"]})
    run = run_with(ToolPolicy(allow=euros, otherwise="deny"))
    change = step_of(run, {"currency": "EUR"}, {"currency": "\u0415UR"}, {"currency": "eur"})
    assert states(change) == ["called", "ended", "ended"]


def test_a_policy_of_now_holds_for_open_runs_where_it_is_stricter() -> None:
    def now(policy: ToolPolicy) -> ToolAccess:
        def found(_: AgentId, __: str) -> ToolPolicy:
            return policy

        return replace(inputs().tools, current_policy=found)

    closed, opened = ToolPolicy(otherwise="deny"), ToolPolicy(otherwise="allow")

    assert states(step_of(run_with(POLICY), {"amount": 1}, access=now(closed))) == ["ended"]
    assert states(step_of(run_with(POLICY), {"amount": 51}, access=now(opened))) == [
        "awaits_approval"
    ]
    assert states(step_of(run_with(None), {"amount": 1}, access=now(closed))) == ["ended"]
    on_trial = closed.model_copy(update={"mode": "log_only"})
    assert states(step_of(run_with(POLICY), {"amount": 51}, access=now(on_trial))) == [
        "awaits_approval"
    ]


VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")
ARG_NAMES = ("amount", "currency", "to", "n")
NAMES = st.sampled_from(ARG_NAMES)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-5, 5),
    st.sampled_from(["EUR", "\u0415UR", "", "9"]),
    st.lists(st.integers(0, 3), max_size=3),
)
ARGS = st.dictionaries(NAMES, VALUES, max_size=4)
CHECKS = st.one_of(
    st.builds(lambda n: {"maximum": n}, st.integers(-5, 5)),
    st.builds(lambda n: {"exclusiveMinimum": n}, st.integers(-5, 5)),
    st.builds(lambda it: {"enum": it}, st.lists(VALUES, min_size=1, max_size=3)),
    st.builds(lambda it: {"type": it}, st.sampled_from(["integer", "string", "null", "array"])),
    st.just({"not": {"type": "number"}}),
)
RULES = st.none() | st.builds(
    lambda required, properties: about_args(tuple(required), **properties),
    st.lists(NAMES, max_size=2, unique=True),
    st.dictionaries(NAMES, CHECKS, max_size=3),
)
POLICIES = st.builds(
    ToolPolicy,
    deny=RULES,
    ask=RULES,
    allow=RULES,
    otherwise=st.sampled_from(["allow", "ask", "deny"]),
)


def read_otherwise(policy: ToolPolicy, args: Json) -> str:
    """The verdict by another library, written down once more."""
    value = {"args": args, "labels": {}, "run": {"steps": 0}}
    for name in ("deny", "ask", "allow"):
        rule = getattr(policy, name)
        if rule is not None and Draft202012Validator(rule).is_valid(value):
            return name
    return policy.otherwise


@pytest.mark.wide
@given(POLICIES, st.lists(ARGS, min_size=1, max_size=5))
@settings(max_examples=300)
def test_no_published_call_breaks_its_policy_as_another_library_reads_it(
    policy: ToolPolicy, calls: list[Json]
) -> None:
    change = step_of(run_with(policy), *calls)
    expected = {"allow": "called", "ask": "awaits_approval", "deny": "ended"}
    assert states(change) == [expected[read_otherwise(policy, args)] for args in calls]
    assert [call.args for call in sent(change)] == [
        args for args in calls if read_otherwise(policy, args) == "allow"
    ]


@pytest.mark.long
def test_a_hundred_thousand_calls_are_judged_as_another_library_judges_them() -> None:
    chance, judged = random.Random(20261126), 0
    for _ in range(1_000):
        policy = chance_policy(chance)
        rules = compiled(policy)
        for _ in range(100):
            args = chance_args(chance)
            value = judged_value(asked(), args, 0, Spent(), untrusted_read=False)
            assert rules.verdict(value).verdict == read_otherwise(policy, args), json.dumps(args)
            judged += 1
    assert judged == 100_000


def chance_policy(chance: random.Random) -> ToolPolicy:
    deny, ask, allow = (chance_rule(chance) if chance.random() < 0.7 else None for _ in range(3))
    otherwise = chance.choice(VERDICTS)
    return ToolPolicy(deny=deny, ask=ask, allow=allow, otherwise=otherwise)


def chance_rule(chance: random.Random) -> Json:
    checks: tuple[Json, ...] = (
        {"maximum": chance.randint(-5, 5)},
        {"exclusiveMinimum": chance.randint(-5, 5)},
        {"enum": [chance_value(chance) for _ in range(chance.randint(1, 3))]},
        {"type": chance.choice(["integer", "string", "null", "array"])},
        {"not": {"type": "number"}},
    )
    required = tuple(chance.sample(ARG_NAMES, chance.randint(0, 2)))
    chosen = chance.sample(ARG_NAMES, chance.randint(0, 3))
    return about_args(required, **{name: chance.choice(checks) for name in chosen})


def chance_args(chance: random.Random) -> Json:
    names = chance.sample(ARG_NAMES, chance.randint(0, 4))
    return {name: chance_value(chance) for name in names}


def chance_value(chance: random.Random) -> Any:
    few = [chance.randint(0, 3) for _ in range(chance.randint(0, 3))]
    plain = chance.choice([None, True, False, "EUR", "\u0415UR", "", "9"])
    return chance.choice([plain, chance.randint(-5, 5), chance.uniform(-5, 5), few])
