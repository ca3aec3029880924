"""What users of the client see, for type checkers alone: this file is never run."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import assert_never, assert_type

from pydantic import BaseModel, JsonValue

from answerbus.agent import AgentRef
from answerbus.answers.agent_action import AgentAction, TextResponse, Thought, ToolCall
from answerbus.answers.plan_proposal import (
    CallsiteRewrite,
    DepBump,
    Override,
    PlanProposal,
)
from answerbus.answers.proposal import Proposal, ProposedAction
from answerbus.answers.selection import NothingSelected, Selected, Selection
from answerbus.answers.specialist import Specialist
from answerbus.budget import Budget
from answerbus.call_outcome import CallOk
from answerbus.client import (
    Client,
    Followed,
    Progress,
    Published,
    PublishedControl,
    Subscription,
    SyncClient,
    SyncSubscription,
    Waiting,
)
from answerbus.client.testing import FakeClient, answered, refused
from answerbus.contract import Contract
from answerbus.control import ApprovalRequested, ControlApplied, InputRequested
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import Fact, Message, Policy, Request
from answerbus.step import Step, ToolEnded
from answerbus.trace import Trace
from tests.plugins.tickets.answerbus_tickets import (
    TICKET_ROUTING,
    AskCustomer,
    NoTicket,
    TicketRouting,
)
from tests.plugins.tickets.answerbus_tickets import (
    Route as TicketRoute,
)


class Route(BaseModel):
    team: str


@dataclass
class Weather:
    celsius: float


async def a_contract_of_several_variants(client: Client) -> str:
    outcome = await client.ask(
        "Propose one change that fixes the build.",
        workflow_id="order-4711",
        response_model=PlanProposal,
        facts={"manifest": {"lodash": "4.17.20"}, "route": Route(team="web")},
        messages=[Message(role="user", content="npm audit fails")],
        profile="default",
        budget=Budget(attempts=3),
        labels={"tenant": "acme"},
        ttl_s=600,
        policy=Policy(at_last="unvalidated"),
        request_id=None,
        timeout_s=120,
    )
    assert_type(
        outcome,
        Result[DepBump | Override | CallsiteRewrite] | UnvalidatedResult | Refusal | DeadLetter,
    )
    match outcome:
        case Result(answer=DepBump() as bump):
            return bump.target_version
        case Result(answer=Override() as override):
            return override.forced_version
        case Result(answer=CallsiteRewrite() as rewrite):
            return rewrite.diff
        case Result():
            assert_type(outcome.answer, DepBump | Override | CallsiteRewrite)
            return ""
        case UnvalidatedResult():
            return outcome.problems[0].path
        case Refusal():
            return outcome.reason
        case DeadLetter():
            return outcome.cause.kind
        case _:
            assert_never(outcome)


def every_answer_of_a_result(outcome: Result[PlanProposal]) -> str:
    """No arm for a refusal: that is an event of its own."""
    match outcome.answer:
        case DepBump():
            return outcome.answer.target_version
        case Override():
            return outcome.answer.forced_version
        case CallsiteRewrite():
            return outcome.answer.diff
        case _:
            assert_never(outcome.answer)


async def any_type_will_do(client: Client) -> None:
    route = await client.ask("Who?", workflow_id="w", response_model=Route)
    assert_type(route, Result[Route] | UnvalidatedResult | Refusal | DeadLetter)

    weather = await client.ask("How warm?", workflow_id="w", response_model=list[Weather])
    assert_type(weather, Result[list[Weather]] | UnvalidatedResult | Refusal | DeadLetter)

    either = await client.ask("Which?", workflow_id="w", response_model=Route | int)
    assert_type(either, Result[Route | int] | UnvalidatedResult | Refusal | DeadLetter)


def what_it_does(action: ToolCall | TextResponse | Thought) -> JsonValue:
    match action:
        case ToolCall(args=args):
            return args
        case TextResponse(content=content) | Thought(content=content):
            return content
        case _:
            assert_never(action)


async def each_contract_that_ships(client: Client) -> JsonValue:
    action = await client.ask("What next?", workflow_id="w", response_model=AgentAction)
    assert_type(action, Result[AgentAction] | UnvalidatedResult | Refusal | DeadLetter)
    if isinstance(action, Result):
        assert_type(action.answer.actions, tuple[ToolCall | TextResponse | Thought, ...])
        return [what_it_does(one) for one in action.answer.actions]

    proposal = await client.ask("What next?", workflow_id="w", response_model=Proposal)
    if isinstance(proposal, Result):
        assert_type(proposal.answer.actions, tuple[ProposedAction, ...])
        return [action.tool for action in proposal.answer.actions]

    selection = await client.ask("Which?", workflow_id="w", response_model=Selection)
    match selection:
        case Result(answer=Selected(element_id=element_id)):
            assert_type(element_id, str)
            return element_id
        case Result(answer=NothingSelected(error=error)):
            return error
        case Result():
            assert_type(selection.answer, Selected | NothingSelected)
            return None
        case UnvalidatedResult() | Refusal() | DeadLetter():
            return None
        case _:
            assert_never(selection)


async def refusing_answer(client: Client) -> Route | str | None:
    wrapped = await client.ask("Who?", workflow_id="w", response_model=Specialist[Route])
    assert_type(wrapped, Result[Specialist[Route]] | UnvalidatedResult | Refusal | DeadLetter)
    match wrapped:
        case Result(answer=Specialist(success=True, output=output)):
            assert_type(output, Route | None)
            return output
        case Result(answer=answer):
            return answer.failure_reason
        case UnvalidatedResult() | Refusal() | DeadLetter():
            return None
        case _:
            assert_never(wrapped)


async def a_contract_of_a_plugin(client: Client) -> None:
    assert_type(TICKET_ROUTING, Contract[TicketRoute | AskCustomer | NoTicket])
    routed = await client.ask("Who?", workflow_id="w", response_model=TicketRouting)
    assert_type(
        routed,
        Result[TicketRoute | AskCustomer] | UnvalidatedResult | Refusal | DeadLetter,
    )


async def text_without_a_type(client: Client) -> None:
    text = await client.ask("Say hello.", workflow_id="w", facts=[Fact(name="a", value=1)])
    assert_type(text, Result[str] | UnvalidatedResult | Refusal | DeadLetter)


async def prepared_requests(client: Client, request: Request) -> None:
    assert_type(client.follow("r", "w", request=request), AsyncIterator[Followed])
    assert_type(await client.publish(request), Published)
    assert_type(await client.publish(request, trace=Trace("a", "b")), Published)
    answer = await client.ask_request(request)
    assert_type(answer, Result[JsonValue] | UnvalidatedResult | Refusal | DeadLetter)
    later = await client.outcome_of("r", "w", request=request)
    assert_type(later, Result[JsonValue] | UnvalidatedResult | Refusal | DeadLetter)
    typed = await client.outcome_of("r", "w", response_model=Route, timeout_s=None)
    assert_type(typed, Result[Route] | UnvalidatedResult | Refusal | DeadLetter)


async def downstream(client: Client) -> None:
    async with client.subscribe(response_model=PlanProposal, group_id="billing") as outcomes:
        async for outcome in outcomes:
            assert_type(
                outcome,
                Result[DepBump | Override | CallsiteRewrite]
                | UnvalidatedResult
                | Refusal
                | Undecodable,
            )
            match outcome:
                case Result(answer=answer):
                    assert_type(answer, DepBump | Override | CallsiteRewrite)
                case UnvalidatedResult() | Refusal() | Undecodable():
                    pass
                case _:
                    assert_never(outcome)


async def downstream_of_every_kind(client: Client) -> None:
    async with client.subscribe(response_model=AgentAction, group_id="agent") as actions:
        async for action in actions:
            assert_type(action, Result[AgentAction] | UnvalidatedResult | Refusal | Undecodable)
    async with client.subscribe(response_model=Selection, group_id="clicks") as selections:
        async for two in selections:
            assert_type(
                two,
                Result[Selected | NothingSelected] | UnvalidatedResult | Refusal | Undecodable,
            )
    async with client.subscribe(response_model=Specialist[Route], group_id="routes") as routes:
        async for three in routes:
            assert_type(
                three, Result[Specialist[Route]] | UnvalidatedResult | Refusal | Undecodable
            )
    async with client.subscribe(response_model=str, group_id="texts") as texts:
        async for four in texts:
            assert_type(four, Result[str] | UnvalidatedResult | Refusal | Undecodable)


async def downstream_with_dead_letters(client: Client) -> None:
    subscription = client.subscribe(response_model=Route, group_id="g", dead_letters=True)
    assert_type(subscription, Subscription[Route, DeadLetter])
    async with subscription as outcomes:
        async for outcome in outcomes:
            match outcome:
                case Result(answer=answer):
                    assert_type(answer, Route)
                case UnvalidatedResult() | Refusal() | Undecodable():
                    pass
                case DeadLetter(cause=cause):
                    assert_type(cause.kind == "rejected", bool)
                case _:
                    assert_never(outcome)


async def the_answer_or_an_error(client: Client) -> None:
    outcome = await client.ask("Who?", workflow_id="w", response_model=Route)
    assert_type(outcome.unwrap(), Route)
    text = await client.ask("Say hello.", workflow_id="w")
    assert_type(text.unwrap(), str)
    bump = await client.ask("Mend it.", workflow_id="w", response_model=PlanProposal)
    assert_type(bump.unwrap(), DepBump | Override | CallsiteRewrite)


async def a_run_of_an_agent(client: Client) -> None:
    text = await client.ask("Where is order 4711?", workflow_id="w", agent="support")
    assert_type(text, Result[str] | UnvalidatedResult | Refusal | DeadLetter)
    ref = AgentRef(name="support", version=3, tools=("orders.get_order",))
    typed = await client.ask("Who?", workflow_id="w", agent=ref, response_model=Route)
    assert_type(typed, Result[Route] | UnvalidatedResult | Refusal | DeadLetter)
    async for followed in client.follow("r", "w", after="0:1.0.0.0"):
        assert_type(followed, Followed)
        match followed.event:
            case ApprovalRequested() as asked:
                published = await client.approve(
                    asked, by="me", reason="half of it", args={"cents": 999}
                )
                assert_type(published, PublishedControl)
                assert_type(await client.effect_of(published), ControlApplied | None)
            case InputRequested() as question:
                published = await client.answer(question, {"street": "High Street"}, by="me")
                assert_type(published, PublishedControl)
            case Step(said=record) | ToolEnded(outcome=CallOk(value=record)):
                assert record
            case ToolEnded() | ControlApplied():
                pass
            case Result() | UnvalidatedResult() | Refusal() | DeadLetter():
                followed.event.unwrap()
            case _:
                assert_never(followed.event)
    assert_type(await client.cancel("r", "w", by="me", reason="enough"), PublishedControl)
    assert_type(await client.cancel_workflow("w", by="me", reason="enough"), PublishedControl)


def shown(progress: Progress) -> str:
    match progress:
        case Published(partition=partition):
            return f"in partition {partition}"
        case RetryRequest(next_attempt=attempt):
            return f"attempt {attempt} is next"
        case Waiting(waited_s=waited_s):
            return f"waiting for {waited_s:.0f} s"
        case _:
            assert_never(progress)


def a_script(client: SyncClient, request: Request, reply: list[Progress]) -> str:
    with client:
        outcome = client.ask(
            "Who?", workflow_id="w", response_model=Route, budget=Budget(attempts=1)
        )
        assert_type(outcome, Result[Route] | UnvalidatedResult | Refusal | DeadLetter)
        text = client.ask("Hello?", workflow_id="w", on_progress=reply.append)
        assert_type(text, Result[str] | UnvalidatedResult | Refusal | DeadLetter)
        assert_type(client.publish(request), Published)
        answer = client.ask_request(request)
        assert_type(answer, Result[JsonValue] | UnvalidatedResult | Refusal | DeadLetter)
        typed = client.outcome_of("r", "w", response_model=Route)
        assert_type(typed, Result[Route] | UnvalidatedResult | Refusal | DeadLetter)
        with client.subscribe(response_model=Route, group_id="g") as outcomes:
            assert_type(outcomes, SyncSubscription[Route])
            for one in outcomes:
                assert_type(one, Result[Route] | UnvalidatedResult | Refusal | Undecodable)
        with client.subscribe(
            response_model=Route, group_id="g", dead_letters=True
        ) as dead_letters:
            for any_end in dead_letters:
                assert_type(
                    any_end, Result[Route] | UnvalidatedResult | Refusal | Undecodable | DeadLetter
                )
        for followed in client.follow("r", "w"):
            assert_type(followed, Followed)
        assert_type(client.cancel("r", "w", by="me", reason="enough"), PublishedControl)
    return outcome.unwrap().team


async def a_test_without_kafka() -> None:
    fake = FakeClient(profiles={"default"})
    fake.prepare(answered(Route(team="web")), refused("No."))
    assert_type(fake.requests, tuple[Request, ...])
    await refusing_answer(fake)
    outcome = await fake.ask("Who?", workflow_id="w", response_model=Route)
    assert_type(outcome, Result[Route] | UnvalidatedResult | Refusal | DeadLetter)
    a_script(SyncClient(over=fake), fake.requests[0], [])
