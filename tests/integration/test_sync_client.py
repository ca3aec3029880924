"""The client for scripts and notebooks on a real Kafka, beside an event loop that is running."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from answerbus.client import (
    BusUnavailable,
    DeadLetterError,
    NoAnswerYet,
    Progress,
    SyncClient,
    Waiting,
)
from answerbus.dead_letter import DeadLetter
from answerbus.event import Event
from answerbus.outcome import Result
from answerbus.request import Context, Request, TextRef
from tests.integration.answering import answering, dead_letter, result
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka


class Route(BaseModel):
    team: str


def text_request(request_id: str) -> Request:
    return Request(
        request_id=request_id,
        workflow_id="w",
        answer_schema=TextRef(),
        context=Context(instructions="Say hello."),
    )


def answer(request: Request) -> list[Event]:
    if request.workflow_id == "dead":
        return [dead_letter(request)]
    if request.workflow_id == "silent":
        return []
    text = request.answer_schema == TextRef()
    return [result(request, "Goeie!" if text else {"team": "web"})]


async def in_a_thread(work: Callable[[], None]) -> None:
    """As a script runs: no event loop in its thread, while the stand-in for a worker has ours."""
    await asyncio.to_thread(work)


async def test_a_script_asks_publishes_and_finds(bus: Bus) -> None:
    def script() -> None:
        with SyncClient(bus.bootstrap, topic_prefix=bus.prefix) as client:
            outcome = client.ask("Who?", workflow_id="w", response_model=Route)
            assert outcome.unwrap() == Route(team="web")
            assert client.ask_request(text_request("r-1")).unwrap() == "Goeie!"
            published = client.publish(text_request("r-2"))
            found = client.outcome_of(published.request_id, "w", response_model=str, timeout_s=20)
            assert found.unwrap() == "Goeie!"
            with pytest.raises(DeadLetterError, match="no profile of that name"):
                client.ask("Hi", workflow_id="dead").unwrap()
            with pytest.raises(NoAnswerYet):
                client.ask("Hi", workflow_id="silent", timeout_s=0.3)

    async with answering(bus, answer):
        await in_a_thread(script)


async def test_progress_is_reported_in_the_thread_that_asks(bus: Bus) -> None:
    texts: list[tuple[int, Progress]] = []

    def script() -> None:
        with (
            SyncClient(bus.bootstrap, topic_prefix=bus.prefix) as client,
            pytest.raises(NoAnswerYet),
        ):
            client.ask(
                "Hi",
                workflow_id="silent",
                timeout_s=1.5,
                on_progress=lambda news: texts.append((threading.get_ident(), news)),
            )
        assert {thread for thread, _ in texts} == {threading.get_ident()}

    await in_a_thread(script)
    assert isinstance(texts[-1][1], Waiting)


async def test_it_works_where_a_loop_is_running_already(bus: Bus) -> None:
    """As in a cell of a notebook: our own loop stands still while the call lasts."""
    answered = threading.Thread(target=lambda: asyncio.run(answer_until(bus, done)))
    done = threading.Event()
    answered.start()
    client = SyncClient(bus.bootstrap, topic_prefix=bus.prefix).open()
    try:
        assert client.ask("Who?", workflow_id="w", response_model=Route).unwrap().team == "web"
    finally:
        client.close()
        client.close()
        done.set()
        answered.join()
    with pytest.raises(RuntimeError, match=r"use `with` or call `open\(\)`"):
        client.publish(text_request("r"))


async def answer_until(bus: Bus, done: threading.Event) -> None:
    async with answering(bus, answer):
        await asyncio.to_thread(done.wait)


async def test_outcomes_come_as_a_plain_iterator_with_dead_letters(bus: Bus) -> None:
    seen: list[object] = []

    def script() -> None:
        with SyncClient(bus.bootstrap, topic_prefix=bus.prefix) as client:
            client.ask("Who?", workflow_id="w", response_model=Route)
            client.ask("Who?", workflow_id="dead", response_model=Route)
            client.ask("Who?", workflow_id="dead")
            subscription = client.subscribe(response_model=Route, group_id="g", dead_letters=True)
            with subscription as outcomes:
                for outcome in outcomes:
                    seen.append(outcome)
                    if len(seen) == 2:
                        break

    async with answering(bus, answer):
        await in_a_thread(script)

    assert {type(one).__name__.partition("[")[0] for one in seen} == {"Result", "DeadLetter"}
    (letter,) = (one for one in seen if isinstance(one, DeadLetter))
    assert letter.workflow_id == "dead"
    assert any(isinstance(one, Result) and one.answer == Route(team="web") for one in seen)


async def test_a_broker_that_is_not_there_is_said_so(unused_tcp_port: int) -> None:
    client = SyncClient(f"127.0.0.1:{unused_tcp_port}")
    with pytest.raises(BusUnavailable, match="see that a broker runs there"):
        client.open()

    assert "answerbus client" not in {thread.name for thread in threading.enumerate()}
