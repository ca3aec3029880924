"""A connection that has bytes, or its end, before it is asked again is asked nothing."""

import asyncio
import json

import pytest

from services.worker.core.attempt.reply import Unavailable
from tests.providers.apis import EACH
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import Close, Misbehaving, Send, When, answer, misbehaving


def other_answer(api: Api) -> tuple[Send]:
    """The answer to nothing that was asked."""
    written = json.dumps(api.good).replace('"{}"', '"[]"').encode()
    return answer(written, headers=api.good_headers)


async def sent(server: Misbehaving, number: int) -> None:
    """Waits until the client's machine, which is this one, has so many bytes."""
    async with asyncio.timeout(LIMIT_S):
        while server.bytes_sent < number:
            await asyncio.sleep(0)


@EACH
@pytest.mark.parametrize("read_first", [True, False], ids=["read", "still in the socket"])
async def test_a_second_response_is_not_the_answer_to_the_next_request(
    api: Api, *, read_first: bool
) -> None:
    told = asyncio.Event()
    whole, late = api.whole, other_answer(api)
    length = sum(len(step.data) for step in (*whole, *late))
    async with (
        misbehaving([*whole, When(told), *late], whole) as server,
        api.at(server.base_url) as provider,
    ):
        first = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        told.set()
        await sent(server, length)
        for _ in range(9 if read_first else 0):
            await asyncio.sleep(0)  # a round of the event loop, which reads what has come
        second = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert [first, second] == [api.good_reply] * 2
    assert [seen.connection for seen in server.seen] == [1, 2]


@EACH
async def test_a_second_response_in_one_packet_is_read_by_nobody(api: Api) -> None:
    both = Send(b"".join(step.data for step in (*api.whole, *other_answer(api))))
    async with misbehaving([both], api.whole) as server, api.at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [api.good_reply] * 2
    assert [seen.connection for seen in server.seen] == [1, 2]


@EACH
async def test_a_connection_that_has_ended_costs_no_call(api: Api) -> None:
    told = asyncio.Event()
    async with (
        misbehaving([*api.whole, When(told), Close()], api.whole) as server,
        api.at(server.base_url) as provider,
    ):
        first = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        told.set()
        async with asyncio.timeout(LIMIT_S):
            await server.closed.wait()
        second = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert [first, second] == [api.good_reply] * 2
    assert [seen.connection for seen in server.seen] == [1, 2]


@EACH
async def test_a_silent_connection_is_kept(api: Api) -> None:
    async with misbehaving(api.whole) as server, api.at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(3)]

    assert replies == [api.good_reply] * 3
    assert server.connections == 1


@EACH
async def test_a_connection_that_is_closed_while_kept_alive_is_no_second_call(api: Api) -> None:
    async with misbehaving(api.whole, [Close()]) as server, api.at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [api.good_reply, Unavailable(None, ran=True)]
    assert [seen.connection for seen in server.seen] == [1, 1]


@EACH
async def test_a_connection_that_the_server_ends_is_not_used_again(api: Api) -> None:
    last = answer(api.good, headers={**api.good_headers, "connection": "close"})
    async with misbehaving([*last, Close()]) as server, api.at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(3)]

    assert replies == [api.good_reply] * 3
    assert [seen.connection for seen in server.seen] == [1, 2, 3]
