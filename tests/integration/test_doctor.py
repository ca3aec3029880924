"""What `answerbus doctor` says about real set-ups: a good one, and several that are not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from answerbus.topics import RESULTS
from infra.ports import free_ports
from tests.integration.bus import ANSWERED, Bus, request
from tests.integration.command_line import ended, start
from tests.integration.topic_settings import change_settings

pytestmark = pytest.mark.kafka

READ_LIMIT_S = 60.0

Said = dict[str, tuple[str, str]]


async def said(bus: Bus, config: Path, **settings: str) -> tuple[int, Said]:
    given = {"partitions": str(bus.partitions), **settings}
    arguments = ("doctor", "--json", "--config", str(config))
    done = await ended(await start(bus.bootstrap, bus.prefix, *arguments, **given))
    assert (done.err, done.code in {0, 1}) == ("", True)
    findings: list[dict[str, Any]] = json.loads(done.out)
    return done.code, {
        finding["about"]: (finding["verdict"], finding["said"]) for finding in findings
    }


def wrong(reply: Said) -> Said:
    return {about: it for about, it in reply.items() if it[0] == "wrong"}


async def test_a_set_up_that_works(bus: Bus) -> None:
    config = bus.config([{"reply": ANSWERED}])
    bus.start_worker(config)
    await bus.publish([request("r-1", "order-1")])
    await bus.terminals(1)

    async with asyncio.timeout(READ_LIMIT_S):  # offsets are committed a moment after outcomes
        while ", 0 records to be read" not in (match := (await said(bus, config))[1])["workers"][1]:
            pass
    code, match = await said(bus, config)

    assert (code, wrong(match)) == (0, {})
    assert match["broker"] == ("ok", f"Kafka at {bus.bootstrap} answers")
    assert match["version"] == ("ok", "1 broker of Kafka 3.7 or newer")
    assert match["topics"] == ("ok", "7 topics of 4 partitions, kept as they should be")
    assert match["replication"][0] == match["in sync"][0] == "warning"  # one broker alone
    assert match["clock"][0] == "ok"
    assert match["offsets"] == ("ok", "those of an empty group are kept as long as requests")
    assert match["workers"][1].startswith(f"1 member of {bus.prefix}.worker, 0 records to be read")
    assert match["transactions"] == ("ok", "none holds readers back")
    assert match["trial"] == (
        "ok",
        "a transaction was aborted: no reader saw it, and its time is the broker's",
    )
    assert match["profile default"] == ("ok", "scripted of scripted can be asked")
    assert match["libraries"][0] == "ok"
    assert match.keys() == {
        "libraries",
        "accounts",
        "contracts",
        "settings",
        "files",
        "drain",
        "broker",
        "version",
        "topics",
        "replication",
        "in sync",
        "elections",
        "compaction",
        "storage",
        "clock",
        "offsets",
        "workers",
        "transactions",
        "trial",
        "profile default",
    }


async def test_a_set_up_with_faults_has_each_of_them_named(bus: Bus) -> None:
    """No worker, a topic kept otherwise, a key that is missing, a model server that is away."""
    (port,) = free_ports(1)
    away = (
        f'[profiles.away]\nprovider = "ollama"\nmodel = "m"\nbase_url = "http://127.0.0.1:{port}"\n'
    )
    keyless = '[profiles.keyless]\nprovider = "openai"\nmodel = "m"\napi_key_env = "NO_SUCH_KEY"\n'
    config = bus.config([{"reply": ANSWERED}], profiles=away + keyless)
    await bus.publish([request("r-1", "order-1")])
    await keep_otherwise(bus)

    code, reported = await said(bus, config)

    assert (code, set(wrong(reported))) == (1, {"topics", "profile away", "profile keyless"})
    assert reported["topics"][1] == (
        f"retention.ms of {bus.topic(RESULTS)} is 1000 and should be 604800000: run `answerbus "
        "topics apply`"
    )
    assert reported["profile away"][1].startswith(f"there is no server at http://127.0.0.1:{port}")
    assert reported["profile keyless"][1].startswith("the variable NO_SUCH_KEY is not set; ")
    assert reported["profile default"][0] == "ok"
    assert reported["workers"] == (
        "warning",
        (
            f"no worker is in the group {bus.prefix}.worker, 1 record to be read in 4 "
            "partitions: start `answerbus worker`"
        ),
    )


async def keep_otherwise(bus: Bus) -> None:
    await change_settings(bus, {RESULTS: {**RESULTS.settings(), "retention.ms": "1000"}})


async def test_topics_that_are_not_there_or_of_another_size(bus: Bus) -> None:
    config = bus.config([{"reply": ANSWERED}])

    _, elsewhere = await said(bus, config, topic_prefix=f"{bus.prefix}-elsewhere")
    _, larger = await said(bus, config, partitions="12")

    assert set(wrong(elsewhere)) == set(wrong(larger)) == {"topics"}
    assert elsewhere["topics"][1].startswith(f"{bus.prefix}-elsewhere.requests.v1 is missing; ")
    assert larger["topics"][1].startswith(
        "The topics have 4 partitions and `kafka.partitions` is 12: set it to 4"
    )


async def test_a_broker_that_is_away_keeps_no_other_check_from_being_made(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    nowhere = Bus(f"127.0.0.1:{port}", "nowhere", 1, tmp_path)
    config = nowhere.config([{"reply": ANSWERED}])
    code, reported = await said(nowhere, config)

    assert (code, set(wrong(reported))) == (1, {"broker"})
    assert reported["broker"][1].startswith(f"Kafka at {nowhere.bootstrap} cannot be used, ")
    assert reported["profile default"][0] == "ok"


async def test_settings_that_cannot_be_read_are_one_line(bus: Bus, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[worker]\nmax_in_fligth = 5\n")
    code, reported = await said(bus, file)

    assert (code, set(wrong(reported))) == (1, {"settings"})
    assert reported["settings"][1].startswith("Setting `worker.max_in_fligth` is unknown")
