"""All ways into a secured broker that the settings know: by the doctor, and by a whole worker."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.commands.doctor.examine import examined_as
from tests.integration.bus import ANSWERED, Bus, create_topics, request
from tests.integration.rights import PASSWORD, PASSWORD_ENV, USER
from tests.integration.secured import Secured

pytestmark = pytest.mark.kafka

HOUR_S = 3_600
LIMIT_S = 60.0
WAYS: tuple[dict[str, Any], ...] = (
    {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256"},
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
    {"security_protocol": "SSL"},
)


def unsigned(claims: dict[str, Any]) -> str:
    """A token that nobody signed, as a broker without a validator takes it."""
    parts = ({"alg": "none"}, claims)
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join([*texts, b""]).decode()


def bus_by(secured: Secured, prefix: str, folder: Path, way: dict[str, Any], **more: Any) -> Bus:
    """All secrets lie in files; `more` are claims of a token."""
    protocol = way["security_protocol"]
    table = secured.settings(protocol, **way, client_rack="rack-1")
    table.pop("sasl_plain_password_env", None)
    if way.get("sasl_mechanism") == "OAUTHBEARER":
        file = folder / "token"
        now = time.time()
        file.write_text(unsigned({"sub": USER, "iat": now, "exp": now + HOUR_S, **more}))
        table["sasl_token_file"] = str(file)
    elif protocol != "SSL":
        file = folder / "password"
        file.write_text(PASSWORD + "\n")
        table["sasl_plain_password_file"] = str(file)
    return Bus(secured.plain, prefix, 1, folder, kafka=table)


@pytest.fixture
async def prefix(secured: Secured, make_prefix: Callable[[], str], tmp_path: Path) -> str:
    found = make_prefix()
    await create_topics(Bus(secured.plain, found, 1, tmp_path))
    secured.allow_worker(found)
    return found


@pytest.mark.parametrize("way", WAYS, ids=lambda it: "-".join(it.values()))
async def test_a_user_comes_in(
    secured: Secured, prefix: str, tmp_path: Path, way: dict[str, Any]
) -> None:
    config = bus_by(secured, prefix, tmp_path, way).config([{"reply": ANSWERED}])

    found = [
        (finding.about, finding.verdict) async for finding in examined_as("publisher", None, config)
    ]

    assert found == [("broker", "ok"), ("rights", "ok")]


async def test_a_token_that_has_expired_is_reported(
    secured: Secured, prefix: str, tmp_path: Path
) -> None:
    bus = bus_by(secured, prefix, tmp_path, WAYS[4], iat=1.0, exp=2.0)

    (found,) = [finding async for finding in examined_as("publisher", None, bus.config([]))]

    assert (found.about, found.verdict) == ("broker", "wrong")
    assert "the broker refuses the token" in found.said
    assert "`kafka.sasl_token_file`" in found.said


async def test_a_worker_works_by_tokens(
    secured: Secured, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its consumer, its lanes, its questions: each of them has the token from the file."""
    monkeypatch.delenv(PASSWORD_ENV, raising=False)
    bus = bus_by(secured, prefix, tmp_path, WAYS[4])
    try:
        worker = await asyncio.to_thread(bus.start_worker, bus.config([{"reply": ANSWERED}]))
        await bus.publish([request("r-1", "order-1")])
        (terminal,) = await bus.terminals(1, LIMIT_S)
        code = await asyncio.to_thread(worker.terminate)
    finally:
        bus.stop_workers()

    assert (terminal["request_id"], code) == ("r-1", 0)
