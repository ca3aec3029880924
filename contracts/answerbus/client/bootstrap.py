"""aiokafka's clients, whose start survives a bootstrap server that does not answer."""

import random
import time
from typing import Any, Final

from aiokafka import admin, client
from aiokafka.errors import KafkaConnectionError

SERVERS_S: Final = 20.0  # for all of them
SERVER_S_MIN: Final = 3.0
ASK_LAST_S: Final = 60.0  # a server that has failed is asked after the others, by all clients
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


def in_order(servers: Any) -> list[str]:
    """The servers as a client asks them: by chance, and last those that have failed of late."""
    listed = servers.split(",") if isinstance(servers, str) else servers
    names = [name.strip() for name in listed]
    random.shuffle(names)
    since = time.monotonic() - ASK_LAST_S
    return sorted(names, key=lambda name: _failed_at.get(name, since) > since)


class AIOKafkaClient(client.AIOKafkaClient):  # type: ignore[misc]  # aiokafka has no types
    """See the module."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        share_start(self)


class AIOKafkaAdminClient(admin.AIOKafkaAdminClient):  # type: ignore[misc]
    """See the module."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        share_start(self._client)
