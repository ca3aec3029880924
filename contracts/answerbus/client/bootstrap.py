"""aiokafka's clients, whose start and whose choice of brokers survive one that does not answer."""

import asyncio
import random
import time
from collections import defaultdict, deque
from contextlib import nullcontext
from typing import Any, Final

from aiokafka import admin, client
from aiokafka.client import ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import CloseReason, collect_hosts
from aiokafka.errors import KafkaConnectionError, for_code
from aiokafka.protocol.commit import OffsetFetchRequest

SERVERS_S: Final = 20.0  # for all of them
SERVER_S_MIN: Final = 3.0
ASK_LAST_S: Final = 60.0  # a server that has failed is asked after the others, by all clients
CONNECT_S: Final = 10.0  # aiokafka waits 40 s, and connects to no other broker meanwhile
CONNECT_S_MAX: Final = 20.0  # to one that was silent before, and may only be slow
OVERDUE_S: Final = 8.0  # requests that may take 10 s are cancelled before a connection fails
UPDATES_AT_ONCE: Final = 10  # of metadata, by one client
UPDATES_S: Final = 0.5  # from the first of these to the next after them
_failed_at: dict[str, float] = {}


def share_start(client: Any) -> None:
    """Let a client wait for each bootstrap server for its part of a start, and no longer.

    aiokafka waits 40 s before it asks the next. A server that takes connections and is silent, or
    whose packets are lost, would end each start that comes to it first.
    """
    bootstrap = client.bootstrap

    async def in_turn() -> None:
        # aiokafka has no option for a start alone, and none for the order of servers.
        usual_ms, servers = client._request_timeout_ms, client._bootstrap_servers  # noqa: SLF001
        names = in_order(servers)
        server_s = max(SERVERS_S / len(names), SERVER_S_MIN)
        client._request_timeout_ms = min(usual_ms, round(server_s * 1000))  # noqa: SLF001
        try:
            for name in names:
                client._bootstrap_servers = name  # noqa: SLF001
                try:
                    await bootstrap()
                except KafkaConnectionError:
                    _failed_at[name] = time.monotonic()
                else:
                    _failed_at.pop(name, None)
                    return
        finally:
            client._request_timeout_ms, client._bootstrap_servers = usual_ms, servers  # noqa: SLF001
        raise KafkaConnectionError(f"no bootstrap server can be used: {', '.join(sorted(names))}")

    client.bootstrap = in_turn
    _BrokerChoice(client)
    _MetadataPace(client)


def check_offsets(client: Any) -> None:
    """Let a client raise the errors of a coordinator that gives no offsets.

    aiokafka looks for them beside each partition, where they have been until version 1 of the
    answer. A group whose coordinator moves or reads its log would seem to have no offset.
    """
    ask = client.send

    async def asked(node_id: Any, request: Any, **options: Any) -> Any:
        answer = await ask(node_id, request, **options)
        if isinstance(request, OffsetFetchRequest) and (code := getattr(answer, "error_code", 0)):
            raise for_code(code)("no offsets of the group")
        return answer

    client.send = asked


class _BrokerChoice:
    """Bounds each attempt to connect, and passes over brokers that have failed of late.

    aiokafka takes any broker for metadata and for the search of a coordinator, again and again also
    the one that it has waited for.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._cluster = client, client.cluster
        self._all_brokers = client.cluster.brokers
        self._connect, self._closed = client._get_conn, client._on_connection_closed  # noqa: SLF001
        self._locks = defaultdict[Any, asyncio.Lock](asyncio.Lock)
        self._limits_s: dict[Any, float] = {}  # of those that were silent
        client._get_conn_lock_value = nullcontext()  # noqa: SLF001 - one for all: each waits for the silent
        client._get_conn, client._on_connection_closed = self._connected, self._on_closed  # noqa: SLF001
        client.cluster.brokers = self._brokers

    async def _connected(
        self, node_id: Any, *, group: ConnectionGroup = ConnectionGroup.DEFAULT, **options: Any
    ) -> Any:
        place = node_id, group
        known = self._client._conns.get(place)  # noqa: SLF001
        if known is not None and known.connected():
            return known
        limit_s, made = self._limits_s.get(place, CONNECT_S), None
        overdue = asyncio.get_running_loop().call_later(OVERDUE_S, self._pass_over, node_id)
        try:
            async with asyncio.timeout(limit_s), self._locks[place]:
                made = await self._connect(node_id, group=group, **options)
        except TimeoutError:
            self._limits_s[place] = min(2 * limit_s, CONNECT_S_MAX)
        else:
            self._limits_s.pop(place, None)
        finally:
            overdue.cancel()
        if made is None:
            self._pass_over(node_id)
        return made

    def _pass_over(self, node_id: Any) -> None:
        if broker := self._cluster.broker_metadata(node_id):
            _failed_at[_address(broker)] = time.monotonic()
        self._client.force_metadata_update()

    def _on_closed(self, connection: Any, reason: CloseReason | None) -> None:
        if reason in (CloseReason.CONNECTION_BROKEN, CloseReason.CONNECTION_TIMEOUT):
            _failed_at[_address(connection)] = time.monotonic()
        self._closed(connection, reason)

    def _brokers(self) -> Any:
        found = self._all_brokers()
        return {it for it in found if not _has_failed(_address(it))} or found


class _MetadataPace:
    """Bounds how often a client asks for metadata.

    While a partition has no leader, aiokafka asks again as soon as it has the answer.
    """

    def __init__(self, client: Any) -> None:
        self._ask = client._metadata_update  # noqa: SLF001 - aiokafka has no option for it
        self._asked_at = deque[float](maxlen=UPDATES_AT_ONCE)
        client._metadata_update = self._in_pace  # noqa: SLF001

    async def _in_pace(self, *given: Any) -> Any:
        now = asyncio.get_running_loop().time
        if len(self._asked_at) == UPDATES_AT_ONCE:
            await asyncio.sleep(self._asked_at[0] + UPDATES_S - now())
        self._asked_at.append(now())
        return await self._ask(*given)


def check_addresses(servers: Any) -> None:
    """Raises ValueError unless each server is HOST:PORT, with a name that DNS can have."""
    for host, _port, _family in collect_hosts(servers):
        host.encode("idna")  # as it is looked up, where aiokafka does not expect this error


def in_order(servers: Any) -> list[str]:
    """The servers as a client asks them: by chance, and last those that have failed of late."""
    listed = servers.split(",") if isinstance(servers, str) else servers
    names = [name.strip() for name in listed]
    random.shuffle(names)
    return sorted(names, key=_has_failed)


def _address(server: Any) -> str:
    return f"{server.host}:{server.port}"


def _has_failed(name: str) -> bool:
    """Whether it has of late."""
    since = time.monotonic() - ASK_LAST_S
    return _failed_at.get(name, since) > since


class AIOKafkaClient(client.AIOKafkaClient):  # type: ignore[misc]  # aiokafka has no types
    """See the module."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        share_start(self)

    def all_brokers(self) -> list[Any]:
        """All brokers of the cluster; those that have failed of late come last."""
        found = ClusterMetadata.brokers(self.cluster)
        return sorted(found, key=lambda it: _has_failed(_address(it)))


class AIOKafkaAdminClient(admin.AIOKafkaAdminClient):  # type: ignore[misc]
    """See the module."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        share_start(self._client)
        check_offsets(self._client)
