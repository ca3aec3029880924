"""Questions asked again of a profile, over HTTP: what differs is found, and the budget holds."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from answerbus.agent import AgentRef
from answerbus.call_outcome import CallOk
from answerbus.compared import Compared, ComparedAnswer
from answerbus.envelope import encode
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from answerbus.request import Context, InlineRef, Request, TextRef
from answerbus.resumed_run import ResumedCall, ResumedRun, ResumedStep
from services.operators.adapters.asking_again import OVER_BUDGET, Asker
from services.operators.comparisons.intervals import Proportion
from services.operators.comparisons.money_budget import MoneyBudget
from services.operators.comparisons.questions import RecordedQuestion, step_answer
from services.operators.comparisons.report import Comparison
from services.settings.profiles import OpenAIProfile, Price
from services.worker.adapters import backends
from services.worker.adapters.clock import SystemClock
from services.worker.core.attempt.plan import Plan
from services.worker.core.run.agents import Agent, Agents
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner
from tests.unit.worker.core.run_builders import tool

NEW, JUDGE = "new", "judge"
SAMPLE, EACH = 200, 10  # one of so many is planted
TOOL = "orders.get"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"mood": {"enum": ["sad", "angry"]}, "n": {"type": "integer"}},
    "required": ["mood", "n"],
    "additionalProperties": False,
}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
CALL_MICRO_USD = 100 * 1 + 20 * 10


@dataclass
class Model:
    """A server that speaks OpenAI's API and answers as it is told, by the request's number."""

    answer: Callable[[int], tuple[int, dict[str, Any]]]
    whole: Callable[[str], tuple[int, dict[str, Any]]] | None = None  # by all that was sent
    judge: Callable[[str], tuple[int, dict[str, Any]]] | None = None  # the same, of a judge
    asked: list[int] = field(default_factory=list)
    address: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        sent = json.loads(await request.text())
        messages = sent["messages"]
        if self.judge and sent["model"] == JUDGE:
            status, body = self.judge(json.dumps(messages))
            return web.json_response(body, status=status)
        text = messages[0]["content"]
        number = int(text.partition("number ")[2].split()[0])
        self.asked.append(number)
        status, body = self.whole(str(messages)) if self.whole else self.answer(number)
        return web.json_response(body, status=status)


def said(answer: object, **message: Any) -> tuple[int, dict[str, Any]]:
    content = {"role": "assistant", "content": json.dumps(answer), **message}
    choice = {"index": 0, "message": content, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "model": "new-1", "choices": [choice]}
    return 200, {**body, "usage": USAGE}


def planted(number: int) -> tuple[int, dict[str, Any]]:
    return said({"n": number, "mood": "angry" if number % EACH == 3 else "sad"})


@asynccontextmanager
async def asking(model: Model, limit_micro_usd: int = 10**9) -> AsyncIterator[Asker]:
    """An asker of a profile at that server, where a judge is as well."""
    application = web.Application()
    application.router.add_post("/v1/chat/completions", model.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    new = OpenAIProfile(
        provider="openai",
        model=NEW,
        base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1",
        price=Price(input_usd=1.0, output_usd=10.0),
        max_output_tokens=200,
        max_in_flight=16,
    )
    clock = SystemClock()
    judge = new.model_copy(update={"model": JUDGE})
    built = backends.build({NEW: new, JUDGE: judge}, clock)
    try:
        planner = Planner(built, Registry())
        yield Asker(planner, NEW, MoneyBudget(limit_micro_usd), Slots(16), clock)
    finally:
        await backends.close(built)
        await runner.cleanup()


def question(number: int) -> RecordedQuestion:
    request = Request(
        request_id=f"r-{number}",
        workflow_id="order-1",
        answer_schema=InlineRef(name="mood", wrapped=False, json_schema=SCHEMA),
        context=Context(instructions=f"The mood of number {number} is asked for."),
        profile="default",
    )
    answer: Any = {"mood": "sad", "n": number}
    return RecordedQuestion(
        request, ComparedAnswer(outcome="answered", profile="default", answer=answer)
    )


def step_question(number: int, args: dict[str, Any]) -> RecordedQuestion:
    """A step after `number - 1` steps, each of which called the tool."""
    done = ResumedCall(
        call_id="r-0.call.1.0",
        tool=TOOL,
        args={"id": "4711"},
        args_digest="sha256:" + "0" * 64,
        outcome=CallOk(value={"state": "it was sent on Monday"}),
    )
    steps = (ResumedStep(attempt=1, said=("Looking.",), calls=(done,)),) * (number - 1)
    last: dict[str, Any] = {"previous": "sha256:" + "0" * 64, "number": 1}
    past = ResumedRun(request_id="r-0", steps=steps, **last) if steps else None
    request = question(0).request.model_copy(
        update={
            "answer_schema": TextRef(),
            "agent": AgentRef(name="support"),
            "resumed": past,
        }
    )
    recorded = step_answer([(TOOL, args)])
    return RecordedQuestion(request, ComparedAnswer(outcome="answered", answer=recorded), number)


async def compared(asker: Asker, count: int) -> list[Compared]:
    found = await asyncio.gather(*(asker.ask(question(n), "trial") for n in range(count)))
    return [one for one in found if isinstance(one, Compared)]


async def test_planted_differences_of_a_tenth_are_found_exactly() -> None:
    model = Model(planted)
    async with asking(model) as asker:
        found = await compared(asker, SAMPLE)
    folded = Comparison()
    for one in found:
        folded.take(one)
    report = folded.report()
    different = {one.request_id for one in found if not one.equal}

    assert sorted(model.asked) == list(range(SAMPLE))
    assert different == {f"r-{n}" for n in range(SAMPLE) if n % EACH == 3}
    assert report.equal == Proportion(180, 200)
    assert dict(report.fields) == {"/mood": Proportion(180, 200), "/n": Proportion(200, 200)}
    assert report.again.valid == Proportion(200, 200)
    assert report.charged_micro_usd == SAMPLE * CALL_MICRO_USD == asker.money.charged_micro_usd
    assert found[0].again.model == "new-1"
    assert len({encode(one).key for one in found}) == 1
    assert len({one.event_id for one in found}) == SAMPLE


async def test_invalid_answers_refusals_and_failures_are_distinguished() -> None:
    answers = {
        0: said({"mood": "sad"}),
        1: said("", content=None, refusal="I will not."),
        2: (503, {"error": {"message": "away"}}),
        3: (400, {"error": {"message": "no", "code": "bad"}}),
    }
    async with asking(Model(lambda n: answers[n])) as asker:
        found = [await asker.ask(question(n), "trial") for n in range(4)]
    ended = [
        (one.again.outcome, one.equal, one.charged_micro_usd)
        for one in found
        if isinstance(one, Compared)
    ]
    worst = ended[2][2]

    assert ended == [
        ("invalid", None, CALL_MICRO_USD),
        ("refused", None, CALL_MICRO_USD),
        ("failed", None, worst),
        ("failed", None, 0),
    ]
    assert worst > CALL_MICRO_USD  # nothing was reported
    assert asker.money.charged_micro_usd == 2 * CALL_MICRO_USD + worst
    assert asker.money.reserved_micro_usd == 0


async def test_the_budget_is_never_exceeded_however_many_ask_at_once() -> None:
    limit = 40_000
    model = Model(planted)
    async with asking(model, limit) as asker:
        results = await asyncio.gather(*(asker.ask(question(n), "trial") for n in range(SAMPLE)))
        over = [one for one in results if one is OVER_BUDGET]
        last = question(SAMPLE - 1).request.model_copy(update={"profile": NEW})
        plan = await asker._plan(last)
        assert isinstance(plan, Plan)
        worst = plan.worst_cost(plan.prompt(last, ()))

    assert over
    assert limit - asker.money.charged_micro_usd < worst
    assert len(model.asked) == SAMPLE - len(over)
    assert asker.money.charged_micro_usd == len(model.asked) * CALL_MICRO_USD <= limit


async def test_one_that_waits_for_money_is_not_asked_once_the_comparison_is_over() -> None:
    model, is_over = Model(planted), False

    def over() -> bool:
        return is_over

    async with asking(model, 5_000) as asker:  # one worst case, not two
        asks = [asyncio.create_task(asker.ask(question(n), "trial", over)) for n in range(4)]
        async with asyncio.timeout(5.0):
            while not asker.money.reserved_micro_usd:
                await asyncio.sleep(0)
        is_over = True
        found = await asyncio.gather(*asks)

    assert [type(one) for one in found] == [Compared, type(None), type(None), type(None)]
    assert len(model.asked) == 1


async def test_a_step_of_a_run_is_asked_with_the_recorded_steps_and_no_tool_is_called() -> None:
    seen: list[str] = []
    call = {"kind": "tool_call", "name": "orders.get", "args": {"id": "4711"}}

    def answer(text: str) -> tuple[int, dict[str, Any]]:
        seen.append(text)
        return said({"actions": [call]})

    async with asking(Model(lambda _: planted(0), whole=answer)) as asker:
        agent = Agent(AgentDefinition(name="support", version=1, instructions="Help."), (TOOL,))
        tools = {TOOL: tool(TOOL)}
        asker.planner.agents, asker.planner.tools = Agents([agent]), tools
        for step, answered in ((1, {"id": "4711"}), (2, {"id": "4712"})):
            found = await asker.ask(step_question(step, answered), "trial")
            assert isinstance(found, Compared)
            assert (found.step, found.equal) == (step, step == 1), found

    assert "was sent on Monday" not in seen[0]
    assert "was sent on Monday" in seen[1]


async def test_what_cannot_be_asked_costs_nothing_and_says_why() -> None:
    model = Model(planted)
    odd = question(1).request.model_copy(
        update={"answer_schema": InlineRef(name="x", json_schema={"$ref": "https://a.example"})}
    )
    async with asking(model) as asker:
        found = await asker.ask(RecordedQuestion(odd, question(1).recorded), "trial")

    assert isinstance(found, Compared)
    assert (found.again.outcome, found.charged_micro_usd, model.asked) == ("failed", 0, [])
    assert found.again.why
