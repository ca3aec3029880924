"""The console on a real Kafka: a workload read as it is, and a broker that goes away."""

import asyncio
import json
import re
import ssl
import uuid
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar, TCPConnector
from aiokafka import AIOKafkaProducer

from answerbus.client.bus import Bus as ClientBus
from answerbus.topics import DEAD_LETTERS, REQUESTS
from infra.kafka import Broker, start_broker
from services.console.guard import COOKIE
from services.console.main import serving
from services.console.tasks.feed import Feed
from services.settings.console import ConsoleSettings, OidcSettings
from services.settings.settings import KafkaSettings, Settings
from tests.integration.bus import Bus, create_topics, request
from tests.integration.certificates import Authority
from tests.integration.dead_letters import dead_letters, publish
from tests.unit.console.issuer import CLIENT, SECRET, issuing
from tests.unit.operators.stored_examples import body_of

pytestmark = pytest.mark.kafka

LIMIT_S = 90.0


async def until_page(
    session: ClientSession, url: str, holds: Callable[[str], bool], what: str
) -> str:
    """The page once it holds; every answer on the way is a page, too."""
    text = ""
    try:
        async with asyncio.timeout(LIMIT_S):
            while True:
                async with session.get(url) as response:
                    assert response.status == 200
                    text = await response.text()
                if holds(text):
                    return text
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not in {LIMIT_S} s: {what}; at last\n{text}") from None


async def test_the_pages_say_that_kafka_is_away_and_go_on_when_it_is_back(
    brokers: list[Broker], tmp_path: Path
) -> None:
    broker = brokers[0]
    bus = Bus(broker.bootstrap_servers, f"test-{uuid.uuid4().hex[:8]}", 2, tmp_path)
    await create_topics(bus)
    await bus.publish([request("r-1", "w-1")])
    kafka = KafkaSettings(bootstrap_servers=bus.bootstrap, topic_prefix=bus.prefix)
    settings = Settings(kafka=kafka, console=ConsoleSettings(port=0))
    async with (
        serving(settings) as address,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as session,
    ):
        async with session.get(address) as response:  # the printed address lets in
            assert response.status == 200
        tail = f"{address.partition('login')[0]}tail"
        await until_page(session, tail, lambda text: "r-1" in text, "the first request")

        broker.kill()
        away = await until_page(session, tail, lambda text: "cannot be used" in text, "trouble")
        assert "r-1" in away

        brokers.append(start_broker(broker.data, broker.port))
        await bus.publish([request("r-2", "w-2")])
        back = await until_page(session, tail, lambda text: "r-2" in text, "the second request")
        assert "r-1" in back
        await until_page(session, tail, lambda text: "cannot be used" not in text, "no trouble")


async def test_a_person_signs_in_over_tls_and_what_they_do_bears_their_name(
    bus: Bus, tmp_path: Path
) -> None:
    """The real server with a certificate of its own, and an issuer that is another server."""
    authority = Authority(tmp_path, "authority")
    files = authority.signs("console")
    await publish(bus, dead_letters(1, ["unknown_profile"]))
    async with issuing() as issuer:
        (tmp_path / "secret").write_text(SECRET)
        oidc = OidcSettings(
            issuer=issuer.url,
            client_id=CLIENT,
            client_secret_file=tmp_path / "secret",
            operators=("bus-operators",),
        )
        settings = Settings(
            kafka=KafkaSettings(bootstrap_servers=bus.bootstrap, topic_prefix=bus.prefix),
            console=ConsoleSettings(
                port=0, oidc=oidc, ssl_certfile=files.certificate, ssl_keyfile=files.key
            ),
        )
        trust = TCPConnector(ssl=ssl.create_default_context(cafile=authority.file))
        async with (
            serving(settings) as url,
            ClientSession(cookie_jar=CookieJar(unsafe=True), connector=trust) as browser,
        ):
            assert url.startswith("https://127.0.0.1:")
            assert "token" not in url, "none is made up where people sign in"
            async with browser.get(f"{url}login/issuer") as response:  # through the issuer and back
                assert "You are signed in as ada@acme.example" in await response.text()
                assert response.cookies[COOKIE]["secure"]
            page = await until_page(browser, f"{url}letters/list", _has_dead_letter, "the letter")
            form = {name: _field(page, name) for name in ("csrf", "id")}
            form |= {"action": "dismiss", "new-reason": "known"}
            async with browser.post(
                f"{url}letters/jobs", data=form, headers={"Origin": url.rstrip("/")}
            ) as response:
                assert response.status == 200, await response.text()
            await until_page(
                browser,
                f"{url}actions",
                lambda text: "ada@acme.example" in text[_main(text) :],
                "the action",
            )
    (dismissed,) = [one for one in await bus.everything(DEAD_LETTERS) if one["kind"] == "dismissed"]
    assert (dismissed["by"], dismissed["reason"]) == ("ada@acme.example", "known")


def _main(page: str) -> int:
    """Where the content begins: above it stands who is signed in."""
    return page.index("<main")


def _has_dead_letter(page: str) -> bool:
    return 'name="id"' in page


def _field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert found
    return unescape(found[1])


async def test_dead_letters_are_reached_while_others_go_on_writing(bus: Bus) -> None:
    """A replay waits for the letters that there are: on a busy bus the end runs away."""
    feed = Feed(ClientBus(bus.bootstrap, bus.prefix, {}))
    async with (
        asyncio.timeout(LIMIT_S),
        AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as writer,
    ):
        reading = asyncio.create_task(feed.run())
        writing = asyncio.create_task(_write_on(bus, writer))
        for n in range(5):
            dead_letter = json.dumps(
                body_of("dead_letter/unknown_profile", dead_letter_id=f"l-{n}")
            )
            await writer.send_and_wait(
                bus.topic(DEAD_LETTERS), dead_letter.encode(), partition=n % 4
            )
            await feed.catch_up_with_dead_letters()

            assert feed.state.dead_letters.named(f"l-{n}")
        assert not writing.done()
        for task in (writing, reading):
            task.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)


async def _write_on(bus: Bus, writer: AIOKafkaProducer) -> None:
    value = json.dumps(request("r", "w")).encode()
    while True:
        await writer.send(bus.topic(REQUESTS), value, partition=0)
        await asyncio.sleep(0.001)
