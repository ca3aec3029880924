"""Clients whose bootstrap servers take connections, and say nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import client
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import CloseReason
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NoError,
    NotCoordinatorForGroupError,
)
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from aiokafka.protocol.metadata import MetadataResponse_v1

from answerbus.client import bootstrap
from answerbus.client.bootstrap import (
    UPDATES_AT_ONCE,
    UPDATES_S,
    AIOKafkaAdminClient,
    AIOKafkaClient,
    share_start,
)
from answerbus.client.bounded import bounded, close
from answerbus.client.bus import Bus
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.transactional_producer import TransactionalProducer
from tests.unit.worker.lane.virtual import on_virtual_time

SERVER_S = 0.04
LIMIT_S = 10.0  # aiokafka alone waits for 40 s, for each


@pytest.fixture(autouse=True)
def nothing_failed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_failed_at", {})


@pytest.fixture
async def silent() -> AsyncIterator[list[str]]:
    taken: list[asyncio.StreamWriter] = []

    async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)

    servers = [await asyncio.start_server(take, "127.0.0.1", 0) for _ in range(2)]
    yield ["{}:{}".format(*server.sockets[0].getsockname()) for server in servers]
    for server in servers:
        server.close()
    for writer in taken:
        writer.close()


def consumer(servers: list[str]) -> RecordConsumer:
    return RecordConsumer(bootstrap_servers=servers)


def transactional(servers: list[str]) -> TransactionalProducer:
    return TransactionalProducer(bootstrap_servers=servers, transactional_id="t")


def producer(servers: list[str]) -> Any:
    return Bus(servers, "p", {}).producer()


def admin(servers: list[str]) -> AIOKafkaAdminClient:
    return AIOKafkaAdminClient(bootstrap_servers=servers)


def plain(servers: list[str]) -> AIOKafkaClient:
    return AIOKafkaClient(bootstrap_servers=servers)


@pytest.mark.parametrize(
    "make",
    [
        consumer,
        pytest.param(transactional, marks=pytest.mark.services),
        producer,
        admin,
        plain,
    ],
)
async def test_each_server_has_its_part_of_a_start(
    make: Callable[[list[str]], Any], silent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "SERVER_S_MIN", SERVER_S)
    monkeypatch.setattr(bootstrap, "SERVERS_S", len(silent) * SERVER_S)
    client = make(silent)
    start = client.bootstrap if isinstance(client, AIOKafkaClient) else client.start
    try:
        with pytest.raises(KafkaConnectionError):
            await bounded(start(), LIMIT_S)
    finally:
        await close(client.stop() if hasattr(client, "stop") else client.close())


class Starting:
    """A client, as far as its start goes; `asked` are the servers that any of them has asked."""

    def __init__(self, servers: str | list[str], asked: list[str], dead: set[str]) -> None:
        self._bootstrap_servers: Any = servers
        self._request_timeout_ms = 40_000
        self._asked, self._dead = asked, dead
        self._get_conn = self._on_connection_closed = self._metadata_update = None
        self.cluster = ClusterMetadata()
        share_start(self)

    async def bootstrap(self) -> None:
        self._asked.append(self._bootstrap_servers)
        if self._bootstrap_servers in self._dead:
            raise KafkaConnectionError("Unable to bootstrap from [('b', 2, 0)]")


async def test_a_server_that_has_failed_is_asked_last_by_the_next_clients() -> None:
    asked: list[str] = []
    while asked[:1] != ["b:2"]:
        asked.clear()
        await Starting("a:1,b:2", asked, {"b:2"}).bootstrap()
    assert asked == ["b:2", "a:1"]
    for _ in range(20):
        await Starting(["a:1", "b:2"], asked, {"b:2"}).bootstrap()
    assert asked[2:] == ["a:1"] * 20
    await Starting("a:1,b:2", asked, {"a:1"}).bootstrap()
    assert asked[22:] == ["a:1", "b:2"]
    await Starting("a:1,b:2", asked, set()).bootstrap()
    assert asked[24:] == ["b:2"]  # it has answered, and is asked first again


async def test_the_error_names_all_servers_in_one_order() -> None:
    for _ in range(10):
        client = Starting("b:2,a:1", [], {"a:1", "b:2"})
        with pytest.raises(
            KafkaConnectionError, match=r"no bootstrap server can be used: a:1, b:2$"
        ):
            await client.bootstrap()
        assert client._bootstrap_servers == "b:2,a:1"
        assert client._request_timeout_ms == 40_000


async def test_a_broker_that_does_not_answer_is_passed_over_while_others_do(
    silent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For metadata, and for the search of a coordinator; and it is connected to for no longer."""
    monkeypatch.setattr(bootstrap, "CONNECT_S", SERVER_S)
    client = plain(silent)
    ports = [int(address.rpartition(":")[2]) for address in silent]
    nodes = [(node, "127.0.0.1", port, None) for node, port in enumerate(ports)]
    client.cluster.update_metadata(MetadataResponse_v1(nodes, 0, [(0, "t", False, [])]))

    assert await bounded(client._get_conn(0), LIMIT_S) is None
    assert {client.get_random_node() for _ in range(20)} == {1}
    assert [broker.nodeId for broker in client.all_brokers()] == [1, 0]
    assert client._md_update_waiter.done()  # its partitions may have another leader by now
    closed = SimpleNamespace(host="127.0.0.1", port=ports[1])
    client._on_connection_closed(closed, CloseReason.CONNECTION_TIMEOUT)
    assert {client.get_random_node() for _ in range(50)} == {0, 1}  # no other is left


async def test_a_broker_whose_handshake_is_slow_is_connected_to_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under load, or behind a slow server of tokens; it would be given up again and again."""
    made = SimpleNamespace(connected=lambda: True)

    async def slow(*_: object, **__: object) -> Any:
        await asyncio.sleep(2.5 * SERVER_S)
        return made

    monkeypatch.setattr("aiokafka.client.create_conn", slow)
    monkeypatch.setattr(bootstrap, "CONNECT_S", SERVER_S)
    client = plain(["a:1"])
    client.cluster.update_metadata(MetadataResponse_v1([(0, "a", 1, None)], 0, []))
    async with asyncio.timeout(LIMIT_S):
        assert await client._get_conn(0) is None
        while (connection := await client._get_conn(0)) is None:
            pass
    assert connection is made


async def test_a_broker_that_refuses_connections_is_not_the_only_one_to_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a rolling restart: the one that was restarted before answers again."""

    async def refused(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("aiokafka.client.create_conn", refused)
    client = plain(["a:1"])
    nodes = [(0, "a", 1, None), (1, "b", 2, None)]
    client.cluster.update_metadata(MetadataResponse_v1(nodes, 0, []))
    client._on_connection_closed(SimpleNamespace(host="a", port=1), CloseReason.CONNECTION_BROKEN)
    assert {client.get_random_node() for _ in range(20)} == {1}

    assert await client._get_conn(1) is None
    assert {client.get_random_node() for _ in range(50)} == {0, 1}


@on_virtual_time
async def test_metadata_are_asked_for_now_and_then_while_a_partition_has_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """aiokafka asks as fast as brokers answer."""
    asked: list[float] = []

    async def answered(*_: object) -> bool:
        asked.append(asyncio.get_running_loop().time())
        return True

    monkeypatch.setattr(AIOKafkaClient, "_metadata_update", answered)
    client = plain(["a:1"])
    for _ in range(3 * UPDATES_AT_ONCE):
        assert await client._metadata_update(client.cluster, [])

    later = asked[UPDATES_AT_ONCE:]
    assert all(b - a > 0.9 * UPDATES_S for a, b in zip(asked, later, strict=False))


@pytest.mark.parametrize(
    ("made", "end"), [(RecordConsumer, "stop"), (AIOKafkaAdminClient, "close")]
)
@pytest.mark.parametrize("error", [NotCoordinatorForGroupError, GroupAuthorizationFailedError])
async def test_a_coordinator_that_gives_no_offsets_is_an_error(
    made: Callable[[], Any], end: str, error: type[KafkaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group seemed to have none, and its topic was read from the beginning."""
    answers = [OffsetFetchResponse_v3(0, [], code) for code in (error.errno, NoError.errno)]

    async def send(*_: object, **__: object) -> object:
        return answers.pop(0)

    monkeypatch.setattr(client.AIOKafkaClient, "send", send)
    asked, one = OffsetFetchRequest("workers", [("requests", [0])]), made()
    with pytest.raises(error):
        await one._client.send(1, asked)
    assert (await one._client.send(1, asked)).topics == []
    await close(getattr(one, end)())
