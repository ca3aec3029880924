"""What a waiting command says while Kafka is away."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from answerbus.client.testing import FakeClient, answered
from answerbus.event import AnyOutcome
from answerbus.registry import Registry
from answerbus.topics import LEDGER
from services.command_line import bus_of, stderr
from services.commands import asking, chatting, following, kafka_away, notices, watch
from services.commands.chatting import Chat
from services.commands.following import follow_to_end
from services.commands.kafka_away import AWAY_AFTER_S, KafkaAway
from services.commands.notices import NO_WORKER, NO_WORKER_AFTER_S, Notices
from services.operators.records.record_filter import RecordFilter
from services.settings.settings import KafkaSettings

AWAY = "No connection to Kafka at kafka:9092: this goes on once it is back."
BACK = "Kafka at kafka:9092 answers again."
KAFKA = KafkaSettings(bootstrap_servers="kafka:9092")


def test_kafka_is_reported_away_once_and_back_once() -> None:
    said: list[str] = []
    away = KafkaAway("kafka:9092", said.append)

    away.look(is_connected=False, now=0)
    away.look(is_connected=True, now=AWAY_AFTER_S - 1)
    away.look(is_connected=False, now=AWAY_AFTER_S)
    away.look(is_connected=False, now=2 * AWAY_AFTER_S - 1)
    assert said == []  # connections are made again in between

    for now in (2 * AWAY_AFTER_S, 3 * AWAY_AFTER_S):
        away.look(is_connected=False, now=now)
    assert said == [AWAY]

    for now in (4 * AWAY_AFTER_S, 5 * AWAY_AFTER_S):
        away.look(is_connected=True, now=now)
    assert said[1:] == [BACK]


def be_away_for_a_while(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """What the module reads: nothing, from a Kafka that is away until nobody is patient.

    The event is set once it is back.
    """
    now, is_back = [0.0], asyncio.Event()

    class Reader:
        is_connected = False

        async def follow(self) -> AsyncIterator[Sequence[Any]]:
            while not self.is_connected:
                yield []
                now[0] += AWAY_AFTER_S
                self.is_connected = now[0] > NO_WORKER_AFTER_S + AWAY_AFTER_S
            yield []
            is_back.set()

    @asynccontextmanager
    async def reading(*_: object, **__: object) -> AsyncIterator[Reader]:
        yield Reader()

    clock = SimpleNamespace(monotonic=lambda: now[0])
    for timed in (notices, kafka_away):
        monkeypatch.setattr(timed, "time", clock)
    monkeypatch.setattr(module, "reading", reading)
    return is_back


async def test_watch_says_beside_its_records_that_kafka_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    be_away_for_a_while(watch, monkeypatch)

    await watch._watch(KAFKA, RecordFilter(), from_start=False, limit=None, as_json=True)

    written = capsys.readouterr()
    assert (written.out, written.err.splitlines()) == ("", [AWAY, BACK])


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", ["ask", "chat"])
async def test_a_run_that_is_followed_says_that_kafka_is_away_and_that_no_worker_takes_it(
    command: str,
    *,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    is_back = be_away_for_a_while(notices, monkeypatch)
    fake, request = FakeClient(), Chat.of("support", "w", None, 1).turn("Hello", "r-1")
    fake.prepare(answered("Good evening."))

    async def follow(*arguments: Any) -> AnyOutcome:
        await is_back.wait()
        return await follow_to_end(*arguments)

    monkeypatch.setattr(following, "follow_to_end", follow)
    monkeypatch.setattr(asking, "client_of", lambda *_: fake)
    if command == "ask":
        await asking._follow(KAFKA, Registry(), request, 60, asyncio.Event(), as_json=as_json)
    else:
        chat = Chat.of("support", "w", None, 1)
        await chatting._turn((fake, bus_of(KAFKA)), chat, "Hello", 60, as_json=as_json)

    assert capsys.readouterr().err.splitlines()[:3] == [AWAY, BACK, NO_WORKER]


async def test_what_waits_for_a_worker_is_said_again_once_kafka_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A spinner shows its last notice alone."""
    said: list[str] = []
    now, reader = [0.0], SimpleNamespace(is_connected=True)

    async def follow() -> AsyncIterator[Sequence[Any]]:
        for is_connected in (True, True, True, False, False, False, True, True):
            now[0] += NO_WORKER_AFTER_S
            reader.is_connected = is_connected
            yield []

    @asynccontextmanager
    async def reading(*_: object, **__: object) -> AsyncIterator[Any]:
        yield reader

    reader.follow = follow
    for timed in (notices, kafka_away):
        monkeypatch.setattr(timed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(notices, "reading", reading)
    request = Chat.of("support", "w", None, 1).turn("Hello", "r-1")
    await Notices(bus_of(KAFKA), request, said.append)._follow((LEDGER,))

    assert said == [NO_WORKER, AWAY, BACK, NO_WORKER]


async def test_an_event_of_a_run_shows_that_a_worker_has_taken_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    be_away_for_a_while(notices, monkeypatch)
    said: list[str] = []
    fake, request = FakeClient(), Chat.of("support", "w", None, 1).turn("Hello", "r-1")
    fake.prepare(answered("Good evening."))
    given = Notices(bus_of(KAFKA), request, said.append, has_progress=False)
    monkeypatch.setattr(Notices, "_give", lambda _: asyncio.sleep(0))
    monkeypatch.setattr(notices, "IN_PLACE_S_MAX", 0.0)

    async with fake:
        await following._show(fake, given, 60, lambda _: None, lambda: None)
    await given._follow((LEDGER,))

    assert said == [AWAY, BACK]


@pytest.mark.parametrize("command", ["ask", "follow"])
async def test_a_reader_that_fails_takes_the_place_of_no_outcome(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_failed = asyncio.Event()

    @asynccontextmanager
    async def reading(*_: object, **__: object) -> AsyncIterator[None]:
        has_failed.set()
        raise RuntimeError
        yield

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(notices, "IN_PLACE_S_MAX", 0.0)
    monkeypatch.setattr(notices, "reading", reading)
    bus, request = bus_of(KafkaSettings()), Chat.of("support", "w", None, 1).turn("Hello", "r-1")
    waiting = {
        "ask": asking._waiting_shown(bus, request, stderr()),
        "follow": Notices(bus, request, print, has_progress=False).given(),
    }
    async with waiting[command]:
        await has_failed.wait()
