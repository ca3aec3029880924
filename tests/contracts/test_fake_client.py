"""The client for users' tests: what it accepts, how requests end, and what subscribers get."""

import threading
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from answerbus.answers.plan_proposal import DepBump, PlanProposal, Refuse
from answerbus.answers.specialist import Specialist
from answerbus.budget import Budget
from answerbus.client import (
    BusUnavailable,
    Client,
    NoAnswerYet,
    Progress,
    Published,
    RefusalError,
    SyncClient,
)
from answerbus.client.testing import (
    Asked,
    FakeClient,
    FakeClientError,
    answered,
    dead_letter,
    kafka_away,
    refused,
    silence,
    unvalidated,
)
from answerbus.dead_letter import DeadLetter, UnknownProfile
from answerbus.envelope import Undecodable
from answerbus.failure import Problem
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Context, ContractRef, Fact, Request, TextRef

pytest_plugins = ["answerbus.client.testing.pytest_plugin"]

BUMP = DepBump(
    kind="dep_bump", manifest_path="package.json", package="lodash", target_version="4.17.21"
)


class Route(BaseModel):
    team: str


class Code(BaseModel, regex_engine="python-re"):
    """With a pattern that is Python's own, and none of JSON Schema."""

    code: Annotated[str, Field(pattern=r"[A-Z]\d\Z")]


@dataclass
class Weather:
    celsius: float


def text_request(request_id: str = "r", instructions: str = "Say hello.") -> Request:
    return Request(
        request_id=request_id,
        workflow_id="w",
        answer_schema=TextRef(),
        context=Context(instructions=instructions),
    )


async def propose(client: Client) -> PlanProposal:
    """A service under test."""
    outcome = await client.ask(
        "Propose one change.",
        workflow_id="order-1",
        response_model=PlanProposal,
        facts={"finding": "lodash"},
    )
    return outcome.unwrap()


async def test_a_service_gets_the_typed_answer_and_its_request_is_kept(
    fake_client: FakeClient,
) -> None:
    fake_client.prepare(answered(BUMP))

    assert await propose(fake_client) == BUMP
    (request,) = fake_client.requests
    assert request.answer_schema == ContractRef(name="plan_proposal", version=1)
    assert request.context.facts == (Fact(name="finding", value="lodash"),)
    assert fake_client.unused == 0


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (str, "Goeie!"),
        (Route, Route(team="web")),
        (Weather, Weather(celsius=3.5)),
        (list[Route], [Route(team="web")]),
        (Specialist[Route], Specialist[Route](output=Route(team="web"), success=True)),
        (PlanProposal, BUMP),
    ],
)
async def test_each_kind_of_type_is_answered_in_it(
    fake_client: FakeClient, form: Any, answer: Any
) -> None:
    fake_client.prepare(answered(answer))
    outcome = await fake_client.ask("Which?", workflow_id="w", response_model=form)

    assert isinstance(outcome, Result)
    assert outcome.answer == answer
    found = await fake_client.outcome_of(outcome.request_id, "w", response_model=form)
    assert found == outcome


async def test_every_outcome_can_be_prepared_in_order(fake_client: FakeClient) -> None:
    problem = Problem.of("/team", "missing", "a team")
    fake_client.prepare(
        unvalidated({"tema": "web"}, problem),
        refused("No.", category="policy"),
        dead_letter(UnknownProfile()),
        answered(Route(team="web")),
    )
    kinds = [
        await fake_client.ask("Who?", workflow_id=f"w-{n}", response_model=Route) for n in range(4)
    ]

    first, second, third, fourth = kinds
    assert isinstance(first, UnvalidatedResult)
    assert (first.unvalidated_answer, first.problems) == ({"tema": "web"}, (problem,))
    assert isinstance(second, Refusal)
    assert (second.by, second.reason, second.category) == ("provider", "No.", "policy")
    assert isinstance(third, DeadLetter)
    assert (third.cause, third.request) == (UnknownProfile(), fake_client.requests[2])
    assert isinstance(fourth, Result)


async def test_a_refusing_variant_ends_as_a_refusal_as_on_the_bus(fake_client: FakeClient) -> None:
    fake_client.prepare(answered(Refuse(kind="refuse", reason="out_of_scope", detail="No fix.")))

    with pytest.raises(RefusalError) as raised:
        await propose(fake_client)

    refusal = raised.value.outcome
    assert (refusal.by, refusal.category, refusal.reason) == ("model", "out_of_scope", "No fix.")


@pytest.mark.parametrize(
    ("form", "answer", "text"),
    [
        (PlanProposal, {"kind": "dep_bump"}, "not a valid plan_proposal.v1: at /manifest_path"),
        (PlanProposal, "text", "not a valid plan_proposal.v1"),
        (Route, {"tema": "web"}, "at /team, .* is a required property"),
        (Route, {"team": "web", "id": 7}, "'id' was unexpected"),
        (Weather, {"celsius": "3.5"}, "at /celsius, .* is not of type"),
        (Specialist[Weather], {"success": True, "output": {"celsius": "3"}}, "at /output/celsius"),
        (Specialist[Weather], {"success": False}, "not a valid wrapped answer"),
        (str, {"team": "web"}, "not a text"),
        (Code, {"code": "A1"}, 'is for a schema that workers refuse: .* is not a "regex"'),
    ],
)
async def test_an_answer_that_no_worker_would_publish_fails_the_test(
    fake_client: FakeClient, form: Any, answer: Any, text: str
) -> None:
    fake_client.prepare(answered(answer))

    with pytest.raises(FakeClientError, match=text):
        await fake_client.ask("Which?", workflow_id="w", response_model=form)


async def test_a_request_without_a_workflow_is_one_of_its_own(fake_client: FakeClient) -> None:
    fake_client.prepare(*[answered("Hello.")] * 10)
    for _ in range(9):  # the attempts of one workflow would be spent
        assert isinstance(await fake_client.ask("Say hello."), Result)
    again = [await fake_client.ask("Say hello.", request_id="ticket-1") for _ in range(2)]

    assert again[0] == again[1]
    assert again[0].workflow_id == again[0].request_id == "ticket-1"


async def test_a_request_that_was_answered_before_has_its_outcome_again(
    fake_client: FakeClient,
) -> None:
    fake_client.prepare(answered("Hello."))
    first, second = [
        await fake_client.ask("Say hello.", workflow_id="w", request_id="ticket-1")
        for _ in range(2)
    ]

    assert first == second


async def test_a_request_without_a_prepared_outcome_fails_the_test(fake_client: FakeClient) -> None:
    with pytest.raises(FakeClientError, match=r"'Propose one change\.': call `prepare"):
        await propose(fake_client)


async def test_what_the_wire_refuses_is_refused_here_too(fake_client: FakeClient) -> None:
    fake_client.prepare(answered("never"))
    with pytest.raises(ValidationError):
        await fake_client.ask("Hi", workflow_id="w", ttl_s=0)
    with pytest.raises(ValidationError):
        await fake_client.ask("", workflow_id="w")
    with pytest.raises(ValueError, match="of at most 524,288"):
        await fake_client.ask("x" * 600_000, workflow_id="w")

    assert (fake_client.requests, fake_client.unused) == ((), 1)


async def test_workers_decisions_before_a_call_are_taken() -> None:
    fake = FakeClient(profiles={"default"})
    fake.prepare(*[answered("Goeie!")] * 9)

    unknown = text_request("a").model_copy(
        update={"answer_schema": ContractRef(name="nothing", version=1)}
    )
    misspelt = text_request("b").model_copy(update={"profile": "defualt"})
    broke = text_request("c").model_copy(
        update={"workflow_id": "poor", "budget": Budget(attempts=0)}
    )
    outcomes = [await fake.ask_request(one) for one in (unknown, misspelt, broke)]

    causes = [outcome.cause.kind for outcome in outcomes if isinstance(outcome, DeadLetter)]
    assert causes == ["unknown_schema", "unknown_profile", "budget_exhausted"]
    assert fake.unused == 9


async def test_the_budget_of_a_workflow_is_that_of_its_first_request(
    fake_client: FakeClient,
) -> None:
    fake_client.prepare(*[answered("Goeie!")] * 9)
    asks = [
        await fake_client.ask("Hi", workflow_id="w", budget=Budget(attempts=attempts))
        for attempts in (2, 9, 9)
    ]

    assert [ask.kind for ask in asks] == ["result", "result", "dead_letter"]
    assert (await fake_client.ask("Hi", workflow_id="other")).kind == "result"


async def test_a_copy_is_dropped_and_another_body_conflicts(fake_client: FakeClient) -> None:
    fake_client.prepare(answered("once"), answered("never"))
    first = await fake_client.ask_request(text_request())
    assert await fake_client.ask_request(text_request()) == first
    await fake_client.publish(text_request(instructions="Say goodbye."))

    assert await fake_client.outcome_of("r", "w") == first
    assert fake_client.unused == 1
    letters = fake_client.subscribe(response_model=str, group_id="g", dead_letters=True)
    async with letters as outcomes:
        kinds = [outcome.kind async for outcome in outcomes if not isinstance(outcome, Undecodable)]
    assert kinds == ["result"]  # a letter about a record belongs to no type
    conflict = await fake_client.ask_request(text_request(instructions="Say goodbye, then."))
    assert isinstance(conflict, DeadLetter)
    assert (conflict.cause.kind, conflict.request) == ("conflicting_id", None)


async def test_silence_and_an_absent_kafka(fake_client: FakeClient) -> None:
    fake_client.prepare(silence(), kafka_away(), answered("Goeie!"))
    with pytest.raises(NoAnswerYet) as raised:
        await fake_client.ask("Hi", workflow_id="w")
    with pytest.raises(BusUnavailable):
        await fake_client.ask("Hi", workflow_id="w")

    assert len(fake_client.requests) == 1
    with pytest.raises(NoAnswerYet):
        await fake_client.outcome_of(raised.value.request_id, "w")
    assert (await fake_client.ask("Hi", workflow_id="w")).unwrap() == "Goeie!"


async def test_outcomes_can_depend_on_the_request(fake_client: FakeClient) -> None:
    def choose(request: Request) -> Any:
        return answered(request.context.instructions.upper())

    def own(asked: Asked) -> None:
        assert asked.request.profile == "default"

    fake_client.prepare_by(choose)
    fake_client.prepare(own)
    with pytest.raises(NoAnswerYet):
        await fake_client.ask("first", workflow_id="w")

    assert (await fake_client.ask("second", workflow_id="w")).unwrap() == "SECOND"


async def test_progress_is_reported(fake_client: FakeClient) -> None:
    texts: list[Progress] = []
    fake_client.prepare(answered("Goeie!"))
    await fake_client.ask("Hi", workflow_id="w", request_id="r", on_progress=texts.append)

    assert texts == [Published("r", 0, 0)]


async def test_subscribers_get_what_belongs_to_them_and_then_an_end(
    fake_client: FakeClient,
) -> None:
    fake_client.deliver(answered("text"), response_model=str)
    fake_client.deliver(answered(BUMP), response_model=PlanProposal)
    fake_client.deliver(refused("No."), response_model=PlanProposal)
    fake_client.deliver(dead_letter(UnknownProfile()), response_model=PlanProposal)
    fake_client.deliver_bytes(b"\xff")

    async def kinds(**more: Any) -> list[str]:
        group = "-".join(sorted(more)) or "none"
        wanted = fake_client.subscribe(response_model=PlanProposal, group_id=group, **more)
        async with wanted as outcomes:
            return [type(outcome).__name__.partition("[")[0] async for outcome in outcomes]

    assert await kinds() == ["Result", "Refusal", "Undecodable"]
    assert await kinds(refusals=False) == ["Result", "Undecodable"]
    assert await kinds(dead_letters=True) == ["Result", "Refusal", "DeadLetter", "Undecodable"]
    assert await kinds() == []
    assert fake_client.requests[0].context.instructions == "As another service asks."


async def test_what_a_subscriber_has_not_done_comes_again(fake_client: FakeClient) -> None:
    for team in ("web", "billing"):
        fake_client.deliver(answered(Route(team=team)), response_model=Route)

    async def teams(fail_at: str | None) -> list[str]:
        seen = []
        async with fake_client.subscribe(response_model=Route, group_id="g") as outcomes:
            async for outcome in outcomes:
                assert isinstance(outcome, Result)
                seen.append(outcome.answer.team)
                if outcome.answer.team == fail_at:
                    raise ConnectionError
        return seen

    with pytest.raises(ConnectionError):
        await teams("billing")
    assert await teams(None) == ["billing"]
    assert await teams(None) == []


async def test_a_closed_client_is_closed() -> None:
    async with FakeClient() as fake:
        fake.prepare(answered("Goeie!"))
        assert (await fake.ask("Hi", workflow_id="w")).unwrap() == "Goeie!"
    with pytest.raises(RuntimeError, match="async with"):
        await fake.publish(text_request())


def test_the_sync_client_has_it_too() -> None:
    fake = FakeClient()
    fake.prepare(answered("Goeie!"))
    with SyncClient(over=fake) as client:
        assert client.ask("Hi", workflow_id="w").unwrap() == "Goeie!"
        with client.subscribe(response_model=str, group_id="g") as outcomes:
            assert [
                outcome.kind for outcome in outcomes if not isinstance(outcome, Undecodable)
            ] == ["result"]


def test_what_a_callback_raises_leaves_the_sync_client_usable() -> None:
    def refuse(_: Progress) -> None:
        raise ConnectionError

    fake = FakeClient()
    fake.prepare(answered("never seen"), answered("Goeie!"))
    with SyncClient(over=fake).open() as client:  # opened twice, closed once
        with pytest.raises(ConnectionError):
            client.ask("Hi", workflow_id="w", on_progress=refuse)
        assert client.ask("Hi", workflow_id="w").unwrap() == "Goeie!"
    assert "answerbus client" not in {thread.name for thread in threading.enumerate()}
