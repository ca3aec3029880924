"""Who may ask a worker for its health: addresses always, names that are its own or were set."""

import pytest
from aiohttp import ClientSession

from answerbus.masking import Mask
from services.telemetry.counts import Counts
from services.worker.adapters.kafka.membership import Membership
from services.worker.core.health_hosts import is_meant
from services.worker.health.server import Health
from tests.unit.worker.health.watch import health_inputs
from tests.unit.worker.lane.world import FakeProvider, context

NAMES = ("worker.acme.example", "*.worker.acme.svc")
PATHS = ("/live", "/ready", "/metrics", "/nothing")


@pytest.mark.parametrize(
    "host",
    [
        None,  # HTTP/1.0: no browser
        *("127.0.0.1:8080", "127.0.0.1", "10.1.2.3:8080", "[::1]:8080", "[fd00::1]", "::1"),
        *("localhost", "localhost:8080", "LOCALHOST.", "Worker.Acme.Example:8080"),
        *("worker-0.worker.acme.svc", "a.b.worker.acme.svc.:8080"),
    ],
)
def test_addresses_and_known_names_are_answered(host: str | None) -> None:
    assert is_meant(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            ":8080",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "[evil.example]",
        ),
        *(
            "127.0.0.1.evil.example",
            "10.1.2.3.nip.io:8080",
            "xworker.acme.example",
            "worker.acme.svc",
        ),
        *("evilworker.acme.svc", "127.1", "2130706433", "0x7f000001", "127.0.0.1@evil.example"),
        *("worker.acme.example.evil.example", "local host", "127.0.0.1,evil.example"),
    ],
)
def test_any_other_name_is_not(host: str) -> None:
    assert not is_meant(host, NAMES)


def nobody() -> None:
    raise AssertionError


async def statuses(at: str, **headers: str) -> list[int]:
    found = []
    async with ClientSession() as session:
        for path in PATHS:
            async with session.get(at + path, headers=headers) as response:
                found.append(response.status)
                assert "Server" not in response.headers
    return found


async def test_a_name_that_was_rebound_reads_nothing_and_probes_do() -> None:
    membership = Membership(nobody, nobody)  # type: ignore[arg-type]  # not called
    around = context(FakeProvider())
    watched = health_inputs(membership, around)
    health = Health("127.0.0.1:0", watched, Counts(), NAMES, Mask(["a-secret-of-ours"]))
    address = await health.start()
    try:
        assert await statuses(address) == [200, 200, 200, 404]
        assert await statuses(address, Host="10.9.8.7:8080") == [200, 200, 200, 404]
        assert await statuses(address, Host="worker.acme.example") == [200, 200, 200, 404]
        assert await statuses(address, Host="evil.example:8080") == [421] * 4

    finally:
        await health.stop()
