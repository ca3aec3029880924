"""What a client does with open requests, on a FakeClient: ask an agent, follow, cancel, approve."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from answerbus.agent import AgentId, AgentRef, ParentId, RunSummary
from answerbus.budget import Budget
from answerbus.client import BusUnavailable, NoAnswerYet, SyncClient
from answerbus.client.connection import request_record
from answerbus.client.follow import StepEvent
from answerbus.client.positions import FOLLOWED_TOPICS, offsets_of, position_of
from answerbus.client.testing import Asked, FakeClient, answered, dead_letter, kafka_away, silence
from answerbus.control import (
    Approval,
    ApprovalRequested,
    Cancel,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.dead_letter import DeadLetter, UnknownAgent
from answerbus.envelope import decode, encode
from answerbus.event import AnyOutcome
from answerbus.outcome import Result
from answerbus.request import Context, Request, TextRef

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
ASKED_ID = "r-1"
CALL_ID = "r-1.call.3.1"


def example(name: str, **changes: Any) -> StepEvent:
    body = json.loads((EXAMPLES / f"{name}.json").read_text("utf-8"))
    event = decode(
        json.dumps({**body, "request_id": ASKED_ID, "workflow_id": "w", **changes}).encode()
    )
    assert isinstance(event, StepEvent)
    return event


def approval_requested() -> ApprovalRequested:
    event = example("approval_requested/refund", call_id=CALL_ID)
    assert isinstance(event, ApprovalRequested)
    return event


def text_request(**more: Any) -> Request:
    context = Context(instructions="Where is order 4711?")
    asked = {"request_id": ASKED_ID, "workflow_id": "w", "answer_schema": TextRef()}
    return Request(**{**asked, "context": context, **more})


async def a_run(fake: FakeClient) -> None:
    """A step that calls two tools, one of which a person is asked for, in a busy partition."""
    fake.deliver_step(example("step/calls"))
    fake.deliver_step(example("step/calls", request_id="another"))
    fake.deliver_step(example("step/calls", workflow_id="stranger"))
    fake.deliver_step(example("tool_ended/ok"))
    fake.deliver_step(approval_requested())
    fake.prepare(answered("It was shipped."))
    await fake.publish(text_request(agent=AgentRef(name="support")))


@pytest.mark.parametrize(
    ("given", "waited_s"),
    [
        ({}, "120.0"),
        ({"agent": "support"}, "3660.0"),
        ({"agent": "support", "ttl_s": 7_200}, "7260.0"),
        ({"agent": "support", "timeout_s": 5.0}, "5.0"),
        ({"agent": "support", "timeout_s": None}, "None"),
    ],
)
async def test_a_run_is_waited_for_until_its_deadline(given: Any, waited_s: str) -> None:
    fake = FakeClient()
    fake.prepare(silence())
    with pytest.raises(NoAnswerYet, match=rf"no outcome within {re.escape(waited_s)} s"):
        await fake.ask("Where is order 4711?", workflow_id="w", **given)


def test_a_program_without_asyncio_waits_as_long() -> None:
    fake = FakeClient()
    fake.prepare(silence())
    run = text_request(agent=AgentRef(name="support"))
    with SyncClient(over=fake) as client, pytest.raises(NoAnswerYet, match=r"within 3660\.0 s"):
        client.ask_request(run)


async def test_an_agent_is_asked_by_its_name_and_its_budget_is_its_own() -> None:
    fake = FakeClient(agents={"support"})
    fake.prepare(*[answered("Shipped.")] * 9)
    for _ in range(9):  # three attempts, which suit no loop, would end here
        outcome = await fake.ask("Where is order 4711?", workflow_id="w", agent="support")
        assert outcome.unwrap() == "Shipped."

    assert fake.requests[0].agent == AgentRef(name="support")
    body = json.loads(request_record(fake.requests[0], None).value)
    assert body["agent"] == {"name": "support", "version": None, "tools": None}
    assert "budget" not in body


def test_a_budget_is_written_down_only_where_one_is_named() -> None:
    named = text_request(agent=AgentRef(name="support"), budget=Budget(attempts=3))

    assert json.loads(request_record(named, None).value)["budget"] == {
        "attempts": 3,
        "tokens": None,
        "micro_usd": None,
    }
    assert "budget" not in json.loads(request_record(text_request(), None).value)


async def test_an_agent_that_no_worker_has_ends_the_request() -> None:
    fake = FakeClient(agents={"support"})
    ref = AgentRef(name="sales", version=2, tools=("orders.get_order",))
    outcome = await fake.ask("Sell.", workflow_id="w", agent=ref)

    assert isinstance(outcome, DeadLetter)
    assert outcome.cause == UnknownAgent()
    assert fake.requests[0].agent == ref


async def test_a_run_is_followed_to_its_end() -> None:
    fake = FakeClient()
    await a_run(fake)

    found = [followed.event async for followed in fake.follow(ASKED_ID, "w")]

    kinds = [event.kind for event in found]
    assert kinds == ["step", "tool_ended", "approval_requested", "result"]
    assert isinstance(found[-1], Result)


async def test_a_reader_goes_on_where_another_has_stopped() -> None:
    fake = FakeClient()
    await a_run(fake)
    whole = [followed async for followed in fake.follow(ASKED_ID, "w")]

    for seen, followed in enumerate(whole[:-1], start=1):
        rest = [it async for it in fake.follow(ASKED_ID, "w", after=followed.position)]
        assert rest == whole[seen:]
    again = [it async for it in fake.follow(ASKED_ID, "w", after=whole[-1].position)]
    assert again == whole[-1:], "it does not wait for what can never come"


async def test_a_run_without_its_end_so_far_is_said_to_be_that() -> None:
    fake = FakeClient()
    fake.deliver_step(example("step/calls"))
    events = fake.follow(ASKED_ID, "w")

    assert (await anext(events)).event.kind == "step"
    with pytest.raises(NoAnswerYet):
        await anext(events)


@pytest.mark.parametrize(
    "control",
    [
        {"kind": "cancel", "scope": "request", "request_id": ASKED_ID, "workflow_id": "w"},
        {"kind": "cancel", "scope": "workflow", "workflow_id": "w"},
    ],
)
async def test_what_came_of_a_control_is_a_part_of_what_is_followed(
    control: dict[str, Any],
) -> None:
    fake = FakeClient()
    reported = Cancel(**control, by="ops@acme", reason="gone", at=datetime(2026, 1, 1, tzinfo=UTC))
    for requests, workflow in (((ASKED_ID,), "w"), (("another",), "w-2")):
        own = reported.model_copy(update={"workflow_id": workflow, "request_id": requests[0]})
        fake.deliver_step(
            ControlApplied(
                event_id=f"c-{workflow}",
                workflow_id=workflow,
                control=own,
                effect="cancelled",
                requests=requests,
                at=reported.at,
            )
        )
    fake.prepare(dead_letter(UnknownAgent()))
    await fake.publish(text_request())

    found = [followed.event async for followed in fake.follow(ASKED_ID, "w")]

    assert [event.kind for event in found] == ["control_applied", "dead_letter"]


async def test_a_dead_letter_about_another_record_does_not_end_what_is_followed() -> None:
    fake = FakeClient()
    fake.prepare(answered("Shipped."))
    await fake.publish(text_request())
    await fake.publish(text_request(profile="another"))  # the same id with another body

    (followed,) = [it async for it in fake.follow(ASKED_ID, "w")]
    (own,) = [it async for it in fake.follow(ASKED_ID, "w", request=text_request())]

    assert isinstance(followed.event, Result)
    assert own == followed
    with pytest.raises(ValueError, match="other ids"):
        fake.follow(ASKED_ID, "another", request=text_request())


async def test_an_approval_is_bound_to_the_very_arguments() -> None:
    fake, asked = FakeClient(), approval_requested()

    approved = await fake.approve(asked, by="ops@acme", reason="customer phoned")
    denied = await fake.deny(asked, by="ops@acme", reason="the customer has it")

    assert [published.control for published in (approved, denied)] == list(fake.controls)
    first, second = fake.controls
    assert isinstance(first, Approval)
    assert isinstance(second, Approval)
    assert (first.call_id, first.args_digest) == (CALL_ID, asked.args_digest)
    assert (first.decision, second.decision) == ("approved", "denied")
    assert (first.by, first.said_by) == ("unproved:fake", "ops@acme")
    assert first.reason == "customer phoned"


async def test_a_question_is_answered_with_a_value() -> None:
    fake, asked = FakeClient(), example("input_requested/address", call_id=CALL_ID)
    assert isinstance(asked, InputRequested)

    published = await fake.answer(asked, {"street": "High Street"}, by="ops@acme")

    (control,) = fake.controls
    assert isinstance(control, Input)
    assert published.control == control
    assert (control.call_id, control.value) == (CALL_ID, {"street": "High Street"})
    assert (control.by, control.said_by) == ("unproved:fake", "ops@acme")
    with pytest.raises(ValidationError):
        await fake.answer(asked, "x" * 65_536, by="ops@acme")


async def test_the_effect_of_a_control_is_found_by_the_control_itself() -> None:
    fake = FakeClient()
    published = await fake.cancel(ASKED_ID, "w", by="ops@acme", reason="withdrawn")
    whole = await fake.cancel_workflow("w", by="ops@acme", reason="withdrawn")
    assert await fake.effect_of(published) is None

    applied = ControlApplied(
        event_id="answerbus.controls.v1-0-0",
        workflow_id="w",
        control=published.control,
        effect="cancelled",
        requests=(ASKED_ID,),
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    fake.deliver_step(applied)

    assert await fake.effect_of(published) == applied
    assert await fake.effect_of(whole) is None
    assert [control.kind for control in fake.controls] == ["cancel", "cancel"]


async def test_kafka_that_is_away_is_an_error_of_its_own() -> None:
    fake = FakeClient()
    fake.prepare(kafka_away())
    with pytest.raises(BusUnavailable):
        await fake.ask("Where?", workflow_id="w", agent="support")


def test_scripts_follow_and_decide_without_await() -> None:
    fake = FakeClient()
    fake.deliver_step(approval_requested())
    fake.prepare(answered("Refunded."))
    with SyncClient(over=fake) as client:
        client.publish(text_request(agent=AgentRef(name="support")))
        kinds = []
        for followed in client.follow(ASKED_ID, "w"):
            kinds.append(followed.event.kind)
            if isinstance(followed.event, ApprovalRequested):
                client.approve(followed.event, by="me", reason="it is right")
        client.deny(approval_requested(), by="me", reason="too late")
        published = client.cancel(ASKED_ID, "w", by="me", reason="enough")
        client.cancel_workflow("w", by="me", reason="enough")
        assert client.effect_of(published) is None

    assert kinds == ["approval_requested", "result"]
    assert [control.kind for control in fake.controls] == [*["approval"] * 2, *["cancel"] * 2]


@pytest.mark.parametrize(
    "text", ["", "nonsense", "1:2.3.4", "1:2.3.4.5,", "1:2.3.4.5.6", "1:²", f"7:0.0.0.{2**63}"]
)
def test_what_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        offsets_of(text)


def test_a_position_is_read_as_it_was_written() -> None:
    offsets = {
        (topic.name, number): 10 * place + number
        for place, topic in enumerate(FOLLOWED_TOPICS)
        for number in (7, 11)
    }

    assert position_of(offsets) == "7:7.17.27.37,11:11.21.31.41"
    assert offsets_of(position_of(offsets)) == offsets


PARENT = ParentId(request_id="r-0", call_id="r-0.call.1.0")


async def test_subscribers_have_children_only_if_they_ask_for_them() -> None:
    fake = FakeClient()

    def as_child(asked: Asked) -> AnyOutcome:
        terminal = answered("from a child")(asked)
        assert isinstance(terminal, Result)
        return terminal.model_copy(update={"parent": PARENT})

    fake.deliver(answered("from a root"), response_model=str)
    fake.deliver(as_child, response_model=str)

    fields = {}
    for children in (False, True):
        group = f"g-{children}"
        async with fake.subscribe(
            response_model=str, group_id=group, children=children
        ) as outcomes:
            fields[children] = [
                outcome.answer async for outcome in outcomes if isinstance(outcome, Result)
            ]
    assert fields == {False: ["from a root"], True: ["from a root", "from a child"]}


def test_an_outcome_of_a_child_names_its_run_in_a_header() -> None:
    body = json.loads((EXAMPLES / "result/text.json").read_text("utf-8"))
    plain = Result[Any].model_validate_json(json.dumps(body))
    agent = AgentId(name="support", version=3, digest="sha256:" + "0" * 64)
    run = RunSummary(agent=agent, steps=1, tool_calls=1)
    child = plain.model_copy(update={"parent": PARENT, "run": run})

    assert ("ce_parentid", b"r-0") in encode(child).headers
    assert "ce_parentid" not in dict(encode(plain).headers)
