"""A SyncClient that several threads open, and one in a process that was forked from its own."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import pytest

from answerbus.client.sync_client import SyncClient
from answerbus.client.testing import FakeClient

FORK_LIMIT_S = 30
FORKED = """
import os, sys
from answerbus.client.sync_client import SyncClient
from answerbus.client.testing import FakeClient

with SyncClient(over=FakeClient()) as client:
    child = os.fork()
    if not child:
        try:
            client.ask("Hello.")
        except RuntimeError as error:
            print(error, flush=True)
        sys.exit()  # leaves the block
    _, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "answerbus client"]


class SlowClient(FakeClient):
    async def __aenter__(self) -> Self:
        await asyncio.sleep(0.1)  # the others come meanwhile
        return await super().__aenter__()


def test_threads_that_open_a_client_at_once_share_it() -> None:
    client = SyncClient(over=SlowClient())
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: client.open(), range(8)))
    assert (opened, threads()) == ([client] * 8, ["answerbus client"])
    client.close()
    assert threads() == []


def test_rows_that_call_the_client_that_asks_about_them_are_refused() -> None:
    def rows() -> Iterator[dict[str, object]]:
        yield {"n": client.ask("One number.", workflow_id="w")}

    client = SyncClient(over=FakeClient())
    with client, pytest.raises(RuntimeError, match="give it a list of rows"):
        client.ask_many(rows(), "Is it even?")


def test_rows_that_close_the_client_that_asks_about_them_are_refused() -> None:
    def rows() -> Iterator[dict[str, object]]:
        client.close()
        yield {"n": 1}

    with SyncClient(over=FakeClient()) as client:
        with pytest.raises(RuntimeError, match="give it a list of rows"):
            client.ask_many(rows(), "Is it even?")
        assert len(client.ask_many([], "Is it even?")) == 0


@pytest.mark.wide
def test_a_forked_process_is_told_to_open_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=FORK_LIMIT_S,
        check=False,
    )
    said = "The client was opened before this process was forked: open another one here.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
