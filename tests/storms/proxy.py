"""A TCP proxy that knows Kafka's frames, and can hold, drop, repeat or delay single requests."""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Self

from infra.ports import LOOPBACK

CONNECT_LIMIT_S = 5.0


class Api(IntEnum):
    """The requests of a transactional producer, by the key that Kafka's protocol gives them."""

    PRODUCE = 0
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS = 24
    ADD_OFFSETS = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Kind(Enum):
    """What happens to one request. Whatever cuts leaves the client without its answer."""

    PASS = auto()
    DELAY = auto()  # arrives after `after_s`, and so do those behind it on its connection
    DROP = auto()  # never arrives; the connection is cut
    LOSE_ANSWER = auto()  # arrives; the connection is cut before the answer
    HOLD = auto()  # the connection is cut; arrives after `after_s`, behind what follows elsewhere
    AGAIN = auto()  # arrives, the connection is cut, and it arrives once more after `after_s`
    TWICE = auto()  # arrives twice before it is answered once
    CUT_AFTER = auto()  # is answered, then the connection is cut


@dataclass(frozen=True, slots=True)
class Treatment:
    """`after_s` None holds the request until `Proxy.release`."""

    kind: Kind = Kind.PASS
    after_s: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a transactional producer."""

    api: Api
    transactional_id: str


PASS = Treatment()
Rule = Callable[[Asked], Treatment]
_FLEXIBLE_FROM = {  # version of the request since which its strings are compact
    Api.PRODUCE: 9,
    Api.INIT_PRODUCER_ID: 2,
    Api.ADD_PARTITIONS: 3,
    Api.ADD_OFFSETS: 3,
    Api.END_TXN: 3,
    Api.TXN_OFFSET_COMMIT: 3,
}


class _Cut(Exception):
    """The client's connection is to be closed now."""


@dataclass(eq=False)
class _Connection:
    """Of one client, and the one to the broker that was opened for it."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    swallowed: set[int] = field(default_factory=set)  # answers that are still to be withheld once
    cut_after: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    broken: bool = False


class Proxy:
    """In front of one broker; `rule` is asked about each request of a transactional producer."""

    def __init__(self, broker_port: int, rule: Rule = lambda _: PASS, port: int = 0) -> None:
        self.rule, self.port = rule, port
        self.seen: Counter[tuple[Api, Kind]] = Counter()
        self.late_answers = asyncio.Semaphore(0)  # released by each answer to what came late
        self._broker_port = broker_port
        self._release = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close at the loop's next turn

    def release(self) -> None:
        """Let all that is held without a time arrive now."""
        self._release.set()
        self._release = asyncio.Event()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                answers, broker = await asyncio.open_connection(LOOPBACK, self._broker_port)
        except (OSError, TimeoutError):
            client.transport.abort()
            return
        connection = _Connection(client, broker)
        self._spawn(self._answer(answers, connection))
        try:
            while True:
                await self._pass_on(await _frame(reader), connection)
        except _Cut:
            connection.broken = True
            client.transport.abort()
        except (asyncio.IncompleteReadError, OSError):
            broker.close()

    async def _pass_on(self, frame: bytes, connection: _Connection) -> None:
        asked, correlation = _asked(frame), _correlation(frame, 8)
        treatment = PASS if asked is None else self.rule(asked)
        if asked:
            self.seen[asked.api, treatment.kind] += 1
        match treatment.kind:
            case Kind.DELAY:
                await self._wait(treatment)
            case Kind.TWICE:
                connection.swallowed.add(correlation)
                connection.broker.write(frame)
            case Kind.CUT_AFTER:
                connection.cut_after.add(correlation)
            case Kind.DROP:
                connection.broker.close()
                raise _Cut
            case Kind.HOLD:
                self._spawn(self._late(frame, treatment, connection))
                raise _Cut
            case Kind.AGAIN:
                connection.broker.write(frame)
                self._spawn(self._late(frame, treatment, connection))
                raise _Cut
            case Kind.PASS | Kind.LOSE_ANSWER:
                pass
        connection.broker.write(frame)
        await connection.broker.drain()
        if treatment.kind is Kind.LOSE_ANSWER:
            raise _Cut

    async def _late(self, frame: bytes, treatment: Treatment, connection: _Connection) -> None:
        await self._wait(treatment)
        connection.late.add(_correlation(frame, 8))
        with suppress(OSError):
            connection.broker.write(frame)
            await connection.broker.drain()

    async def _wait(self, treatment: Treatment) -> None:
        if treatment.after_s is None:
            await self._release.wait()
        else:
            await asyncio.sleep(treatment.after_s)

    async def _answer(self, answers: asyncio.StreamReader, connection: _Connection) -> None:
        try:
            while not await self._pass_back(await _frame(answers), connection):
                pass
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            connection.client.close()  # once it has what was written
            connection.broker.transport.abort()

    async def _pass_back(self, frame: bytes, connection: _Connection) -> bool:
        """Gives whether the connection ends with it."""
        correlation = _correlation(frame, 4)
        if correlation in connection.late:
            connection.late.discard(correlation)
            self.late_answers.release()
        if correlation in connection.swallowed:
            connection.swallowed.discard(correlation)
        elif not connection.broken:
            connection.client.write(frame)
            await connection.client.drain()
        return correlation in connection.cut_after


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack(">i", head)[0])


def _asked(frame: bytes) -> Asked | None:
    """None for what belongs to no transaction."""
    key, version = struct.unpack_from(">hh", frame, 4)
    if key not in _FLEXIBLE_FROM:
        return None
    api = Api(key)
    (client,) = struct.unpack_from(">h", frame, 12)
    at = 14 + max(client, 0)
    if version < _FLEXIBLE_FROM[api]:
        (length,) = struct.unpack_from(">h", frame, at)
        at += 2
    else:  # behind the header's tags, of which clients send none
        length = frame[at + 1] - 1
        at += 2
    return Asked(api, frame[at : at + length].decode()) if length > 0 else None


def _correlation(frame: bytes, at: int) -> int:
    """A request has its number behind its kind, an answer begins with it."""
    (number,) = struct.unpack_from(">i", frame, at)
    return int(number)
