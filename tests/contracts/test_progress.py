"""What is told while an outcome is awaited, without a broker."""

import asyncio
from pathlib import Path

import pytest

from answerbus.client import Progress, Waiting
from answerbus.client.progress import with_retries
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.outcome import Result, RetryRequest

EXAMPLES = Path(__file__).parents[2] / "contracts/examples"


@pytest.fixture
def retry() -> RetryRequest:
    event = decode(sorted((EXAMPLES / "retry_request").glob("*.json"))[0].read_bytes())
    assert isinstance(event, RetryRequest)
    return event


@pytest.fixture
def result() -> Result:
    event = decode((EXAMPLES / "result/text.json").read_bytes())
    assert isinstance(event, Result)
    return event


async def test_retries_that_came_before_the_outcome_are_reported_first(
    retry: RetryRequest, result: Result
) -> None:
    terminal: asyncio.Future[AnyOutcome] = asyncio.get_running_loop().create_future()
    retries: asyncio.Queue[RetryRequest] = asyncio.Queue()
    heard: list[Progress] = []
    for _ in range(2):
        retries.put_nowait(retry)
    terminal.set_result(result)

    assert await with_retries(terminal, "r", retries, heard.append) == result
    assert heard == [retry, retry]


@pytest.mark.wide
async def test_a_failure_ends_the_wait(retry: RetryRequest) -> None:
    terminal: asyncio.Future[AnyOutcome] = asyncio.get_running_loop().create_future()
    retries: asyncio.Queue[RetryRequest] = asyncio.Queue()
    heard: list[Progress] = []

    def end(progress: Progress) -> None:
        heard.append(progress)
        terminal.set_exception(ConnectionError("closed"))

    with pytest.raises(ConnectionError, match="closed"):
        await with_retries(terminal, "r", retries, end)
    assert [type(one) for one in heard] == [Waiting]


async def test_nothing_is_left_behind_when_the_wait_is_cancelled(retry: RetryRequest) -> None:
    terminal: asyncio.Future[AnyOutcome] = asyncio.get_running_loop().create_future()
    retries: asyncio.Queue[RetryRequest] = asyncio.Queue()
    waiting = asyncio.create_task(with_retries(terminal, "r", retries, lambda _: None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}
    retries.put_nowait(retry)
    assert retries.qsize() == 1  # no one took it
