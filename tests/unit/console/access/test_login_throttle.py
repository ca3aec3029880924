"""How fast tokens may be guessed: by the arithmetic, and over HTTP with its lines in the log."""

import asyncio
import logging

import pytest

from services.console.access import login_throttle
from services.console.access.login_throttle import (
    BURST,
    INTERVAL_S,
    STRANGERS_BURST,
    STRANGERS_INTERVAL_S,
    WAIT_S_MAX,
    LoginThrottle,
)
from tests.unit.console.context import OPERATOR, VIEWER, site

HERE = "10.0.0.1"


def tried(at: LoginThrottle, count: int, now_s: float, address: str = HERE) -> list[float | None]:
    return [at.wait_s(address, now_s) for _ in range(count)]


def test_after_some_wrong_tokens_each_further_one_waits() -> None:
    at = LoginThrottle()

    assert tried(at, BURST, 100.0) == [0.0] * BURST
    waits = tried(at, int(WAIT_S_MAX) + 2, 100.0)

    assert waits == [*(number * INTERVAL_S for number in range(1, 6)), None, None]
    assert tried(at, 1, 100.0, "10.0.0.2") == [0.0], "another address is another matter"
    assert tried(at, 1, 100.0 + 3600) == [0.0], "it is forgiven with time"


def test_a_guesser_who_never_stops_gets_one_try_each_second() -> None:
    at = LoginThrottle()
    judged = sum(at.wait_s(HERE, 100.0 + tick / 100) is not None for tick in range(60 * 100))

    assert judged <= BURST + WAIT_S_MAX + 60 / INTERVAL_S


def test_a_network_of_addresses_is_one_guesser() -> None:
    at = LoginThrottle()
    waits = [at.wait_s(f"2001:db8::{number:x}", 100.0) for number in range(BURST + 1)]

    assert waits[-1] == INTERVAL_S
    assert at.wait_s("::ffff:10.0.0.9", 100.0) == 0.0
    assert at.wait_s(None, 100.0) == 0.0


@pytest.mark.wide
def test_all_strangers_together_are_bounded_and_shut_out_nobody_who_was_let_in() -> None:
    at = LoginThrottle()
    at.wait_s(HERE, 100.0)
    at.let_in(HERE)
    tries = 60 * 1_000
    judged = sum(
        at.wait_s(f"10.{n % 250}.{n % 251}.{n % 253}", 100.0 + n / 1_000) is not None
        for n in range(tries)
    )

    assert judged <= STRANGERS_BURST + (60 + WAIT_S_MAX) / STRANGERS_INTERVAL_S
    assert [at.wait_s(f"10.9.9.{n}", 160.0) for n in range(3)][-1] is None
    assert at.wait_s(HERE, 160.0) == 0.0
    assert at.wait_s("10.9.9.9", 160.0 + WAIT_S_MAX + 1) is not None, "once the others have ended"


def test_who_is_let_in_again_and_again_does_not_wait() -> None:
    at = LoginThrottle()
    for _ in range(3 * BURST):
        assert at.wait_s(HERE, 100.0) == 0.0
        at.let_in(HERE)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_throttle, "ADDRESSES_MAX", 3)
    at = LoginThrottle()
    for number in range(10):
        at.wait_s(f"10.0.1.{number}", 100.0)

    assert len(at._due_s) == 3


@pytest.mark.wide
async def test_wrong_tokens_are_logged_and_slowed_and_a_right_one_gets_in(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_throttle, "INTERVAL_S", 0.2)
    monkeypatch.setattr(login_throttle, "WAIT_S_MAX", 0.5)
    caplog.set_level(logging.INFO)
    async with site() as here:
        loop = asyncio.get_running_loop()
        began = loop.time()
        guesses = [here.post("/login", {"token": f"guess-{n}"}) for n in range(50)]
        answers = [answer.status for answer in await asyncio.gather(*guesses)]
        cookie = await here.log_in(OPERATOR)

    judged = answers.count(403)
    assert set(answers) == {403, 429}
    assert judged <= BURST + 0.5 / 0.2 + (loop.time() - began) / 0.2
    texts = [record.getMessage() for record in caplog.records]
    assert texts.count("a wrong token from 127.0.0.1") == judged
    assert "operator logged in as operator from 127.0.0.1" in texts
    assert cookie
    assert not any("guess-" in line or OPERATOR in line or VIEWER in line for line in texts)
