"""What stands still is said at `/ready` with its lane and its reason, and is green again after."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from answerbus.envelope import encode
from answerbus.partition import partition_of
from answerbus.private.ledger import LaneRecord
from answerbus.topics import LEDGER
from infra.kafka import Broker, start_broker
from infra.ports import free_ports
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, fetch, request, until
from tests.providers.misbehaving import answer, misbehaving

pytestmark = pytest.mark.kafka

STUCK_AFTER_S = 4.0  # the broker is asked every other second
LIMIT_S = 30.0
SWIFT = {"stuck_after_s": STUCK_AFTER_S}
HANGS_S = 1_000.0
SILENT = "Kafka has not answered for "


def ready(worker: Worker) -> dict[str, Any]:
    return worker.health


async def verdict(worker: Worker, *, is_ready: bool) -> dict[str, Any]:
    """Wait for it; gives what was said, and shows all that was said if it is not."""
    texts: list[dict[str, Any]] = []

    def is_so() -> bool:
        texts.append(worker.health)
        return bool(texts[-1]["ready"]) is is_ready

    try:
        await until(is_so, f"ready is {is_ready}", LIMIT_S)
    except AssertionError:
        raise AssertionError(texts[-1]) from None
    return texts[-1]


async def at_work(worker: Worker, bus: Bus) -> None:
    """Wait until it has opened all lanes."""
    states = ["open"] * bus.partitions
    await until(lambda: list(ready(worker)["lanes"].values()) == states, "its lanes are open")
    await verdict(worker, is_ready=True)


async def stays_ready(worker: Worker, for_s: float) -> None:
    ends_at = time.monotonic() + for_s
    while time.monotonic() < ends_at:
        body = ready(worker)
        assert body["ready"], json.dumps(body)
        await asyncio.sleep(0.2)


@pytest.mark.long
async def test_an_idle_worker_and_one_without_partitions_are_ready(
    kafka_bootstrap: str, make_prefix: Callable[[], str], tmp_path: Path
) -> None:
    bus = Bus(kafka_bootstrap, make_prefix(), 1, tmp_path)
    await create_topics(bus)
    settings = bus.config([{"reply": ANSWERED}], worker=SWIFT)
    try:
        workers = [bus.start_worker(settings), bus.start_worker(settings)]

        def lanes() -> list[int]:
            return sorted(len(ready(worker)["lanes"]) for worker in workers)

        def members() -> int:
            return sum(json.loads(worker.get("/started"))["started"] for worker in workers)

        await until(lambda: members() == 2, "both have joined")  # the second moves the lane
        await until(lambda: lanes() == [0, 1], "one has the partition")
        for worker in workers:
            await verdict(worker, is_ready=True)
        await stays_ready(workers[0], STUCK_AFTER_S + 1)
        await verdict(workers[1], is_ready=True)
    finally:
        bus.stop_workers()


async def test_a_provider_that_hangs_is_named_until_it_responds(bus: Bus) -> None:
    rules: list[dict[str, Any]] = [
        {"when": {"request_id": "hangs", "attempt": 1}, "reply": ANSWERED, "latency_s": HANGS_S},
        {"reply": ANSWERED},
    ]
    profile = bus.scripted("default", timeout_s=STUCK_AFTER_S + 4)
    bus.config(rules)
    worker = bus.start_worker(bus.settings(profile, SWIFT))
    await at_work(worker, bus)
    await bus.publish([request("hangs", "order-1")])
    red = await verdict(worker, is_ready=False)
    while "order-1" not in {event["workflow_id"] for event in await bus.terminals(1)}:
        pass
    green = await verdict(worker, is_ready=True)

    (name, why), *others = red["unhealthy_profiles"].items()
    assert (name, others, red["stuck"]) == ("default", [], {})
    assert why.startswith("no response from the provider for ")
    assert green["unhealthy_profiles"] == {}


async def test_all_profiles_of_a_server_that_is_away_are_named_within_seconds_and_once(
    bus: Bus,
) -> None:
    """It started with one that was away from the start, too; others are served meanwhile."""
    async with misbehaving(answer({"data": []})) as server:
        url = server.base_url
        bus.config([{"reply": ANSWERED}])
        shared = "".join(openai(f"away-{n}", url) for n in range(5))
        absent = openai("absent", f"http://127.0.0.1:{free_ports(1)[0]}/v1")
        settings = bus.settings(bus.scripted("default") + shared + absent)
        worker = await asyncio.to_thread(bus.start_worker, settings)  # it asks the server above
        body = ready(worker)["unhealthy_profiles"]
        assert list(body) == ["absent"]
    many = [request(f"r-{n}", f"order-{n}", profile="away-0") for n in range(20)]
    await bus.publish([*many, request("served", "order-of-its-own")])
    names = {f"away-{n}" for n in range(5)} | {"absent"}
    began = time.monotonic()
    await until(lambda: set(ready(worker)["unhealthy_profiles"]) == names, "all are named", 10.0)
    took_s = time.monotonic() - began
    red, status = ready(worker), scrape(worker)

    assert (red["stuck"], red["ready"]) == ({}, False)
    assert url[:-3] in red["unhealthy_profiles"]["away-4"], "whether a call or a check has found it"
    unhealthy = {
        dict(labels)["profile"]: value
        for (name, labels), value in status.items()
        if name == "answerbus_profile_unhealthy"
    }
    assert unhealthy == {**dict.fromkeys(names, 1.0), "default": 0.0}
    assert [event["request_id"] for event in await bus.terminals(1)] == ["served"]
    assert took_s < 5


def openai(name: str, base_url: str) -> str:
    return f'[profiles.{name}]\nprovider = "openai"\nmodel = "m"\nbase_url = "{base_url}"\n'


async def test_a_provider_that_asks_for_a_pause_does_not_make_a_worker_unready(bus: Bus) -> None:
    busy = {"kind": "throttled", "retry_after_s": STUCK_AFTER_S + 2}
    rules: list[dict[str, Any]] = [{"when": {"attempt": 1}, "reply": busy}, {"reply": ANSWERED}]
    worker = bus.start_worker(bus.config(rules, worker=SWIFT))
    await at_work(worker, bus)
    await bus.publish([request(f"r-{n}", f"order-{n}") for n in range(3)])
    await until(lambda: bool(bus.ended_calls()), "it was called")
    await stays_ready(worker, STUCK_AFTER_S + 2)

    assert len(await bus.terminals(3)) == 3


async def test_an_unhealthy_profile_is_named_with_the_reply_of_its_provider(bus: Bus) -> None:
    rejected = {"kind": "rejected", "scope": "profile", "status": 401, "code": "invalid_api_key"}
    worker = bus.start_worker(bus.config([{"reply": rejected}], worker=SWIFT))
    await at_work(worker, bus)
    await bus.publish([request("r-1", "order-1")])
    red = await verdict(worker, is_ready=False)

    assert red["unhealthy_profiles"] == {"default": "rejected: status 401, code invalid_api_key"}


@pytest.mark.long
async def test_a_frozen_worker_does_not_answer_and_then_reports_until_it_has_its_lanes(
    bus: Bus,
) -> None:
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}], worker=SWIFT))
    await at_work(worker, bus)
    os.kill(worker.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises((URLError, TimeoutError)):
        worker.get("/ready", limit_s=1)
    await asyncio.sleep(8.0 - (time.monotonic() - began))  # longer than the group waits
    os.kill(worker.process.pid, signal.SIGCONT)
    red = ready(worker)
    live = json.loads(worker.get("/live"))
    green = await verdict(worker, is_ready=True)

    assert (red["ready"], live) == (False, {"live": True})
    assert red["reasons"][0].startswith("the process stood still for ")
    assert (green["reasons"], green["loop"]["stalls"]) == ([], red["loop"]["stalls"])
    assert green["loop"]["worst_s"] > 7
    await bus.publish([request("r-1", "order-1")])
    assert len(await bus.terminals(1)) == 1


async def test_a_broker_that_is_away_is_named_until_it_is_back(
    brokers: list[Broker], tmp_path: Path
) -> None:
    (broker,) = brokers
    bus = Bus(broker.bootstrap_servers, "away", 2, tmp_path)
    await create_topics(bus)
    slow = [{"reply": ANSWERED, "latency_s": 2.0}]
    worker = bus.start_worker(bus.config(slow, worker=SWIFT))
    try:
        await at_work(worker, bus)
        await bus.publish([request(f"r-{n}", f"order-{n}") for n in range(5)])
        await until(lambda: len(bus.calls()) == 5, "they are called")
        broker.kill()
        red: dict[str, Any] = {"reasons": []}
        away = f"1 broker takes no connection: {broker.bootstrap_servers}"
        while not all(text in " ".join(red["reasons"]) for text in (SILENT, away)):
            red = await verdict(worker, is_ready=False)
        brokers.append(start_broker(broker.data, broker.port))
        green = await verdict(worker, is_ready=True)
        terminals = await bus.terminals(5)
    finally:
        bus.stop_workers()

    assert red["reasons"][0].startswith(SILENT)
    assert (green["reasons"], green["stuck"], len(terminals)) == ([], {}, 5)
    reported = Counter((line["logger"], line["message"]) for line in worker.log())
    assert max(reported.values()) <= 3, reported.most_common(3)  # minutes, and a moment each


async def test_a_lane_that_opens_again_and_again_is_poisoned_until_it_gets_something_done(
    bus: Bus,
) -> None:
    """Three workers have died of its first request; a fourth looks as if it might."""
    partition = partition_of("order-1", bus.partitions)
    await write_failed_openings(bus, partition, 3)
    worker = bus.start_worker(bus.config([{"reply": ANSWERED, "latency_s": 3.0}], worker=SWIFT))
    await at_work(worker, bus)
    await bus.publish([request("r-1", "order-1")])
    red = await verdict(worker, is_ready=False)
    green = await verdict(worker, is_ready=True)

    assert list(red["stuck"]) == [str(partition)]
    assert red["stuck"][str(partition)].startswith("was opened 4 times without progress: ")
    assert green["stuck"] == {}


async def write_failed_openings(bus: Bus, partition: int, count: int) -> None:
    """What a lane's ledger says after so many workers have died of it."""
    record = encode(
        LaneRecord(
            partitions=bus.partitions,
            openings_without_progress=count,
            worker="a-dead-one",
            at=datetime(2026, 11, 21, tzinfo=UTC),
        )
    )
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        name = bus.topic(LEDGER)
        await producer.send_and_wait(name, record.value, record.key, partition=partition)


def scrape(worker: Worker) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = worker.get("/metrics").decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics_count_what_the_topics_hold(bus: Bus) -> None:
    bad = {"kind": "answered", "content": "no JSON", "usage": {"input_tokens": 7}}
    good = {**ANSWERED, "usage": {"input_tokens": 10, "output_tokens": 5}}
    rules: list[dict[str, Any]] = [
        {"when": {"request_id": "mended", "attempt": 1}, "reply": bad},
        {"when": {"request_id": "never"}, "reply": bad},
        {"reply": good},
    ]
    bus.config(rules)
    price = {"input_usd": 1.0, "output_usd": 2.0}
    profile = bus.scripted("default") + f"[profiles.default.price]\n{_toml(price)}"
    worker = bus.start_worker(bus.settings(profile))
    stranger = {"kind": "contract", "name": "made-up-by-a-stranger", "version": 7}
    await bus.publish(
        [
            request("good", "order-1"),
            request("mended", "order-2"),
            request("never", "order-3", budget={"attempts": 1}),
            request("good", "order-1"),
            request("unheard", "order-4", answer_schema=stranger),
            request("elsewhere", "order-5", profile="made-up"),
        ]
    )
    await bus.terminals(5)
    await until(lambda: ready(worker)["duplicates"] == 1, "the copy is dropped")
    reported = scrape(worker)

    def value(name: str, **labels: str) -> float:
        return reported[f"answerbus_{name}", tuple(sorted(labels.items()))]

    plan, default = {"contract": "plan_proposal.v1"}, {"profile": "default"}
    unknown = {"contract": "unknown"}
    assert value("requests_taken_total", **plan, **default) == 3
    assert value("requests_taken_total", **unknown, **default) == 1
    assert value("requests_duplicate_total") == 1
    assert value("terminals_total", kind="result", **plan, **default) == 2
    assert value("terminals_total", kind="dead_letter", **plan, **default) == 1
    assert value("terminals_total", kind="dead_letter", **unknown, **default) == 1
    assert value("terminals_total", kind="dead_letter", **plan, profile="unknown") == 1
    never = {"failure": "none"}
    assert value("dead_letters_total", cause="unknown_schema", **never, **default) == 1
    assert value("dead_letters_total", cause="unknown_profile", **never, profile="unknown") == 1
    malformed = {"failure": "malformed"}
    assert value("dead_letters_total", cause="budget_exhausted", **malformed, **default) == 1
    counted = {"counted": "yes", **default}
    assert value("attempts_total", outcome="result", failure="none", **counted) == 2
    assert value("attempts_total", outcome="retry", failure="malformed", **counted) == 1
    assert value("attempts_total", outcome="dead_letter", failure="malformed", **counted) == 1
    assert value("tokens_total", direction="input", **default) == 34
    assert value("tokens_total", direction="output", **default) == 10
    assert value("spent_micro_usd_total", **plan, **default) == 40
    assert value("call_duration_seconds_count", reply="answered", **default) == 4
    assert value("calls_in_flight", **default) == 0
    assert value("request_duration_seconds_count", kind="result") == 2
    assert value("commit_duration_seconds_count") == value("transactions_total", result="committed")
    assert value("profile_unhealthy", **default) == value("event_loop_stalls_total") == 0
    assert value("ready") == 1
    for partition in map(str, range(bus.partitions)):
        assert value("lane_state", partition=partition, state="open") == 1
        assert value("lane_stuck", partition=partition) == 0
        assert value("lane_requests", partition=partition) == 0
        assert value("lane_openings_total", partition=partition) == 1
    assert not [labels for _, labels in reported if "made-up" in str(labels)]


def _toml(table: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())


async def test_each_process_has_a_port_of_its_own(bus: Bus) -> None:
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}]), "--processes", "2")
    await until(lambda: len(set(worker.addresses)) == 2, "both say where they listen")

    def lanes() -> list[str]:
        texts = [json.loads(fetch(f"{address}/ready")) for address in worker.addresses]
        return sorted(lane for body in texts for lane in body["lanes"])

    await until(lambda: lanes() == [str(p) for p in range(bus.partitions)], "each has its lanes")
