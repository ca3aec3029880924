"""What someone is told who waits for an outcome, on a real Kafka and from a real worker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from pydantic import BaseModel

from answerbus.client import Client, NoAnswerYet, Progress, Published, Waiting
from answerbus.outcome import Result, RetryRequest
from answerbus.topics import DEAD_LETTERS, REFUSALS, REQUESTS, RESULTS, RETRIES
from tests.integration.answering import answering, result
from tests.integration.bus import Bus, create_topics

pytestmark = pytest.mark.kafka


class Route(BaseModel):
    team: str


class NoticeError(Exception):
    """What a callback of ours raises."""


async def test_publication_each_retry_and_the_time_are_reported(bus: Bus) -> None:
    wrong = {"kind": "answered", "json": {"tema": "web"}}
    right = {"kind": "answered", "json": {"team": "web"}}
    rules = [{"when": {"attempt": 1}, "reply": wrong}, {"reply": right, "latency_s": 1.5}]
    bus.start_worker(bus.config(rules))
    texts: list[Progress] = []

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        outcome = await client.ask(
            "Who?", workflow_id="w", response_model=Route, on_progress=texts.append
        )

    assert isinstance(outcome, Result)
    assert outcome.unwrap() == Route(team="web")
    assert isinstance(texts[0], Published)
    retries = [text for text in texts if isinstance(text, RetryRequest)]
    assert [(retry.request_id, retry.next_attempt) for retry in retries] == [
        (outcome.request_id, 2)
    ]
    waits = [text.waited_s for text in texts if isinstance(text, Waiting)]
    assert waits
    assert waits == sorted(waits)


async def test_what_a_callback_raises_ends_the_wait(bus: Bus) -> None:
    def refuse(_: Progress) -> None:
        raise NoticeError

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        with pytest.raises(NoticeError):
            await client.ask("Hi", workflow_id="w", on_progress=refuse)


async def test_a_timeout_of_the_callback_is_not_taken_for_a_missing_answer(bus: Bus) -> None:
    def too_late(news: Progress) -> None:
        if isinstance(news, Waiting):
            raise TimeoutError("the screen does not answer")

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        with pytest.raises(TimeoutError, match="the screen") as raised:
            await client.ask("Hi", workflow_id="w", timeout_s=20, on_progress=too_late)

    assert not isinstance(raised.value, NoAnswerYet)


async def test_no_answer_in_time_is_said_with_progress_too(bus: Bus) -> None:
    texts: list[Progress] = []
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        with pytest.raises(NoAnswerYet):
            await client.ask("Hi", workflow_id="w", timeout_s=1.2, on_progress=texts.append)

    assert [type(text) for text in texts] == [Published, Waiting]


async def test_where_retries_may_not_be_read_the_rest_is_reported(
    kafka_bootstrap: str, make_prefix: Callable[[], str], tmp_path: Path
) -> None:
    """The topic of retries is the workers' own: a client may not see it."""
    seen = Bus(kafka_bootstrap, make_prefix(), 1, tmp_path)
    await create_topics(seen, topics=(REQUESTS, RESULTS, REFUSALS, DEAD_LETTERS))
    texts: list[Progress] = []

    async with (
        Client(seen.bootstrap, topic_prefix=seen.prefix) as client,
        answering(seen, lambda request: [result(request, "Goeie!")]),
    ):
        outcome = await client.ask("Hi", workflow_id="w", on_progress=texts.append)

    assert outcome.unwrap() == "Goeie!"
    assert isinstance(texts[0], Published)
    async with AIOKafkaConsumer(bootstrap_servers=kafka_bootstrap) as consumer:
        assert seen.topic(RETRIES) not in await consumer.topics()
