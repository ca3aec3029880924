"""A provider that dies under load: its requests go to the next profile within a second."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from answerbus.topics import ATTEMPTS, LEDGER
from tests.integration.bus import Bus, request, until

pytestmark = pytest.mark.kafka

PER_SECOND, BEFORE_S, AFTER_S = 100, 2, 3
MANY = PER_SECOND * (BEFORE_S + AFTER_S)
TOKENS = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
MICRO_USD = {"small": 10 * 1 + 5 * 4, "large": 10 * 3 + 5 * 12}  # of a call
PRICES = {"small": (1.0, 4.0), "large": (3.0, 12.0)}


@dataclass
class Journal:
    """What both servers answered, by request, and when; `address` by model."""

    answered: list[tuple[str, str, float]] = field(default_factory=list)
    address: dict[str, str] = field(default_factory=dict)
    runners: dict[str, web.AppRunner] = field(default_factory=dict)

    async def serve(self, model: str) -> None:
        async def answer(asked: web.Request) -> web.Response:
            if asked.method == "GET":
                return web.json_response({"object": "list", "data": [{"id": model}]})
            name = json.loads(await asked.text())["messages"][-1]["content"].rpartition(" ")[2]
            self.answered.append((name, model, now()))
            message = {"role": "assistant", "content": "Yes."}
            choice = {"message": message, "finish_reason": "stop"}
            return web.json_response(
                {
                    "id": "x",
                    "object": "chat.completion",
                    "model": model,
                    "choices": [choice],
                    "usage": TOKENS,
                }
            )

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        runner = self.runners[model] = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address[model] = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


@asynccontextmanager
async def servers(*models: str) -> AsyncIterator[Journal]:
    journal = Journal()
    for model in models:
        await journal.serve(model)
    try:
        yield journal
    finally:
        for runner in journal.runners.values():
            await runner.cleanup()


def profile(name: str, journal: Journal, model: str, then: str = "") -> str:
    read, written = PRICES[model]
    return (
        f'[profiles.{name}]\nprovider = "openai"\nmodel = "{model}"\nmax_output_tokens = 20\n'
        f'base_url = "{journal.address[model]}"\n{then}\n'
        f"price = {{input_usd = {read}, output_usd = {written}}}\n"
    )


def now() -> float:
    return asyncio.get_running_loop().time()


async def publish(bus: Bus, numbers: range) -> None:
    """So many a second, each in a workflow of its own."""
    for start in range(numbers.start, numbers.stop, PER_SECOND // 10):
        bodies: list[dict[str, Any]] = [
            {
                **request(f"r-{n}", f"w-{n}", "Say yes."),
                "answer_schema": {"kind": "text"},
                "context": {
                    "instructions": "Say yes.",
                    "messages": [{"role": "user", "content": f"It is r-{n}", "trust": "trusted"}],
                },
            }
            for n in range(start, start + PER_SECOND // 10)
        ]
        began = now()
        await bus.publish(bodies)
        await asyncio.sleep(max(0.1 - (now() - began), 0))  # the rate is what is tried here


async def test_a_provider_that_dies_loses_nothing_and_doubles_nothing(bus: Bus) -> None:
    async with servers("small", "large") as journal:
        then = 'then = [{profile = "large", on = ["unhealthy"]}]'
        config = bus.settings(
            profile("default", journal, "small", then) + profile("large", journal, "large")
        )
        worker = await asyncio.to_thread(bus.start_worker, config)
        before = PER_SECOND * BEFORE_S
        await publish(bus, range(before))
        await until(lambda: len(journal.answered) == before, "the first model answers", 60)

        publishing = asyncio.create_task(publish(bus, range(before, MANY)))
        await until(lambda: len(journal.answered) > before + PER_SECOND // 2, "it is in use")
        died = now()
        await journal.runners["small"].cleanup()
        await publishing
        found = await bus.terminals(MANY, 60)
        assert await asyncio.to_thread(worker.terminate) == 0

    assert len(found) == MANY
    assert {one["kind"] for one in found} == {"result"}
    assert max(Counter(name for name, _, _ in journal.answered).values()) == 1
    first = min(at for _, model, at in journal.answered if model == "large")
    assert first - died < 5.0  # on a busy machine; the time-out of a call is 60 s

    who = {name: model for name, model, _ in journal.answered}
    assert {one["request_id"]: one["model"]["model"] for one in found} == who
    hopped = [one for one in found if one["model"]["model"] == "large"]
    assert {one["model"]["because"] for one in hopped} == {"unhealthy"}
    note = "profile large was asked in place of default: unhealthy"
    assert all(note in one["notes"] for one in hopped)
    counted = [one for one in await bus.everything(ATTEMPTS) if one["counted"]]
    # Of a call that was cut nobody knows whether the model ran: it is charged at its most.
    cut = {one["request_id"]: charged(one) for one in counted if one["outcome"] == "retry"}
    assert {who[name] for name in cut} <= {"large"}
    assert Counter(one["request_id"] for one in counted) == Counter([*who, *cut])
    accounts = {one["account_id"]: one for one in await bus.everything(LEDGER) if "spent" in one}
    cost = {f"w-{name[2:]}": MICRO_USD[model] + cut.get(name, 0) for name, model in who.items()}
    assert {name: one["spent"]["micro_usd"] for name, one in accounts.items()} == cost


def charged(attempt: dict[str, Any]) -> int:
    return int((attempt.get("charged") or attempt["usage"])["micro_usd"])
