"""aiokafka's clients, whose start survives a bootstrap server that does not answer."""

from typing import Any, Final

from aiokafka import admin, client

SERVERS_S: Final = 20.0  # for all of them
SERVER_S_MIN: Final = 3.0


def share_start(client: Any) -> None:
    """Let a client wait for each bootstrap server for its part of a start, and no longer.

    aiokafka waits 40 s before it asks the next. A server that takes connections and is silent, or
    whose packets are lost, would end each start that comes to it first.
    """
    bootstrap = client.bootstrap

    async def in_turn() -> None:
        usual_ms = client._request_timeout_ms  # noqa: SLF001 - aiokafka has none for a start alone
        server_s = max(SERVERS_S / len(client.hosts), SERVER_S_MIN)
        client._request_timeout_ms = min(usual_ms, round(server_s * 1000))  # noqa: SLF001
        try:
            await bootstrap()
        finally:
            client._request_timeout_ms = usual_ms  # noqa: SLF001

    client.bootstrap = in_turn


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
