"""A key in a file is used as it is now: swapped under load, refused once, gone for a moment."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from answerbus.masking import Mask
from services.settings.profiles import Profile
from services.settings.settings import SetUpError
from services.worker.adapters import backends
from services.worker.adapters.clock import SystemClock
from services.worker.core.attempt.reply import Answered, Rejected, Reply
from services.worker.ports.provider import NotReady, Provider, Ready
from tests.providers.calls import PROMPT
from tests.providers.keyed_server import KeyedServer, keyed_server

FIRST, SECOND, THIRD = "sk-first-0123456789", "sk-second-987654321", "sk-third-5566778899"
CALLS, AT_ONCE, SWAPS = 400, 20, 8
TIMEOUT_S = 30.0


@pytest.fixture
async def server() -> AsyncIterator[KeyedServer]:
    async with keyed_server(FIRST) as found:
        yield found


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(FIRST + "\n")
    return path


@pytest.fixture
async def provider(server: KeyedServer, key_file: Path) -> AsyncIterator[Provider]:
    built = backends.build(profiles(server.address, key_file), SystemClock())
    yield built["default"].provider
    await backends.close(built)


def profiles(address: str, key_file: Path, **more: object) -> dict[str, Profile]:
    adapter: TypeAdapter[Profile] = TypeAdapter(Profile)
    table = {
        "provider": "openai",
        "model": "m",
        "base_url": address,
        "api_key_file": str(key_file),
        **more,
    }
    return {"default": adapter.validate_python(table)}


def swap(path: Path, key: str) -> None:
    """As Kubernetes and editors do: another file takes the place."""
    fresh = path.with_suffix(".new")
    fresh.write_text(key + "\n")
    fresh.replace(path)


def replace_unseen(path: Path, key: str) -> None:
    """As many bytes, in the same file, at the same time."""
    before = path.stat()
    path.write_text(key + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def spoil(path: Path, content: str | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_text(content)


async def ask(provider: Provider) -> Reply:
    return await provider.ask(PROMPT, timeout_s=TIMEOUT_S)


async def test_the_key_of_the_file_is_sent_and_a_new_one_from_the_next_call_on(
    server: KeyedServer, provider: Provider, key_file: Path
) -> None:
    await ask(provider)
    server.valid = {FIRST, SECOND}
    swap(key_file, SECOND)
    await ask(provider)

    assert server.seen == [FIRST, SECOND]


async def test_keys_swapped_under_load_fail_no_call(
    server: KeyedServer, provider: Provider, key_file: Path
) -> None:
    """The server forgets a key at the moment in which the file has the next one."""
    gate = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def one() -> Reply:
        nonlocal done
        async with gate:
            reply = await ask(provider)
        done += 1
        if done % (CALLS // SWAPS) == 0:
            key = f"sk-number-{done:012}"
            swap(key_file, key)
            server.valid = {key}
        return reply

    replies = await asyncio.gather(*(one() for _ in range(CALLS)))

    assert [type(reply) for reply in replies] == [Answered] * CALLS
    assert len(set(server.seen)) == SWAPS
    assert len(server.seen) <= CALLS + SWAPS * AT_ONCE  # once more each, and no more than that


@pytest.mark.parametrize(("status", "code"), [(401, None), (200, "invalid_api_key")])
async def test_a_refused_key_is_looked_for_once_more_though_the_file_seems_the_same(
    server: KeyedServer, provider: Provider, key_file: Path, status: int, code: str | None
) -> None:
    server.refuses_with, server.code = status, code
    replace_unseen(key_file, "sk-other-0123456789")
    server.valid = {"sk-other-0123456789"}

    assert isinstance(await ask(provider), Answered)
    assert server.seen == [FIRST, "sk-other-0123456789"]


async def test_a_key_that_stays_refused_is_sent_once(
    server: KeyedServer, provider: Provider
) -> None:
    server.valid = set()

    reply = await ask(provider)

    assert isinstance(reply, Rejected)
    assert (reply.scope, reply.status, server.seen) == ("profile", 401, [FIRST])


async def test_a_second_key_that_is_refused_too_is_not_looked_for_again(
    server: KeyedServer, provider: Provider, key_file: Path
) -> None:
    await ask(provider)
    server.valid = {THIRD}
    replace_unseen(key_file, "sk-other-0123456789")

    assert isinstance(await ask(provider), Rejected)
    assert server.seen == [FIRST, FIRST, "sk-other-0123456789"]


async def test_a_call_under_way_ends_with_its_own_key(
    server: KeyedServer, provider: Provider, key_file: Path
) -> None:
    server.held.clear()
    under_way = asyncio.create_task(ask(provider))
    async with asyncio.timeout(TIMEOUT_S):
        while not server.seen:
            await asyncio.sleep(0.01)
    swap(key_file, SECOND)
    server.valid = {FIRST, SECOND}
    next_one = asyncio.create_task(ask(provider))
    async with asyncio.timeout(TIMEOUT_S):
        while len(server.seen) < 2:
            await asyncio.sleep(0.01)
    server.held.set()

    assert isinstance(await under_way, Answered)
    assert isinstance(await next_one, Answered)
    assert server.seen == [FIRST, SECOND]


@pytest.mark.parametrize("left", [None, "", "\n"], ids=["gone", "empty", "blank"])
async def test_a_file_that_is_no_key_for_a_moment_changes_nothing(
    server: KeyedServer, provider: Provider, key_file: Path, left: str | None
) -> None:
    spoil(key_file, left)

    assert isinstance(await ask(provider), Answered)
    assert server.seen == [FIRST]


async def test_no_key_that_a_server_echoes_is_shown_be_it_the_old_or_the_new_one(
    server: KeyedServer, provider: Provider, key_file: Path
) -> None:
    first = await ask(provider)
    swap(key_file, SECOND)
    server.valid = {SECOND}
    second = await ask(provider)

    assert isinstance(first, Answered)
    assert isinstance(second, Answered)
    assert (first.content, second.content) == ("***", "***")
    assert Mask([FIRST])(FIRST) == "***"


async def test_a_profile_whose_key_was_wrong_at_first_is_well_once_it_is_right(
    server: KeyedServer, provider: Provider, key_file: Path
) -> None:
    server.valid = {SECOND}
    refused = await provider.preflight()
    swap(key_file, SECOND)

    assert isinstance(refused, NotReady)
    assert isinstance(await provider.preflight(), Ready)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file or directory"), (b"", "is empty"), (b"\xff", "UTF-8")],
    ids=["missing", "empty", "binary"],
)
async def test_a_file_without_a_key_is_a_wrong_set_up(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "none"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SetUpError) as raised:
        backends.build(profiles("http://127.0.0.1:1", path), SystemClock())

    assert str(raised.value).startswith(
        "Profile `default`: The secret of `profiles.default.api_key_file` is not there ("
    )
    assert why in str(raised.value)


def test_a_key_is_held_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leave `api_key_env` or `api_key_file` out"):
        profiles("http://127.0.0.1:1", tmp_path, api_key_env="MY_KEY")


def test_the_settings_say_nothing_of_a_key(key_file: Path) -> None:
    found = profiles("http://127.0.0.1:1", key_file)["default"]

    assert FIRST not in json.dumps(found.model_dump(mode="json"))
