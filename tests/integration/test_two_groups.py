"""Workers of two consumer groups under one topic prefix: one works, the other says why not."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from answerbus.topics import LEDGER
from answerbus.topics import REQUESTS as REQUESTS_TOPIC
from services.kafka.worker_groups import groups_of_workers
from tests.integration.bus import ANSWERED, Bus, request, until
from tests.integration.command_line import answerbus
from tests.integration.kafka_admin import kafka_admin

pytestmark = pytest.mark.kafka

OTHER = "another-group"
REQUESTS = [request(f"r-{n}", f"order-{n}") for n in range(20)]
LIMIT_S = 60.0  # a look takes place every 15 s


def of_another_group(config: Path) -> Path:
    path = config.with_name("another.toml")
    path.write_text(config.read_text().replace("[kafka]\n", f'[kafka]\ngroup_id = "{OTHER}"\n'))
    return path


async def openings(bus: Bus) -> int:
    """How often a lane was written to by a new owner."""
    records = await bus.everything(LEDGER)
    return sum(
        record["kind"] == "lane" and record["openings_without_progress"] == 1 for record in records
    )


@pytest.mark.long
async def test_one_group_works_and_both_say_what_is_wrong(bus: Bus) -> None:
    config = bus.config([{"reply": ANSWERED}])
    first = bus.start_worker(config)
    await bus.publish(REQUESTS[:10])
    assert len(await bus.terminals(10)) == 10
    opened = await openings(bus)
    second = bus.start_worker(of_another_group(config))

    await until(lambda: len(second.health["stuck"]) == bus.partitions, "no lane is opened", LIMIT_S)
    assert "cannot share a topic prefix" in (why := second.health["stuck"]["0"])
    assert f"of the consumer group {bus.prefix}.worker have it" in why
    await until(lambda: first.health["other_groups"] == [OTHER], "the first notices", LIMIT_S)
    assert first.health["ready"]
    assert any(OTHER in line["message"] for line in first.log())
    doctor = await answerbus(bus.bootstrap, bus.prefix, "doctor", "--json", "--config", str(config))
    (finding,) = [entry for entry in json.loads(doctor.out) if entry["about"] == "groups"]
    assert (finding["verdict"], OTHER in finding["said"]) == ("wrong", True)
    await bus.publish(REQUESTS[10:])
    assert len(await bus.terminals(20)) == 20
    assert await openings(bus) == opened, "nobody was fenced"

    assert first.terminate() == 0
    await bus.settled()
    assert second.health["duplicates"] == 0
    await until(lambda: second.health["ready"], "the other takes over", LIMIT_S)
    await bus.publish([request("r-last", "order-1")])
    assert len(await bus.terminals(21)) == 21
    assert len(bus.calls()) == 21
    assert second.health["duplicates"] == 0, "it goes on where the first group stopped"


async def test_two_groups_that_start_together_come_to_rest(bus: Bus) -> None:
    config = bus.config([{"reply": ANSWERED}])
    first, second = bus.start_worker(config), bus.start_worker(of_another_group(config))
    await bus.publish(REQUESTS)
    assert len(await bus.terminals(20)) == 20

    def shut() -> list[str]:
        return sorted([*first.health["stuck"], *second.health["stuck"]])

    await until(lambda: shut() == [str(n) for n in range(bus.partitions)], "each has one", LIMIT_S)
    await bus.publish([request("r-last", "order-1")])
    assert len(await bus.terminals(21)) == 21


async def test_of_two_workers_with_one_static_id_the_second_goes_on(bus: Bus) -> None:
    """The other says why it does not, and does not put its successor out in turn."""
    config = bus.config([{"reply": ANSWERED}])
    config.write_text(
        config.read_text().replace("[kafka]\n", '[kafka]\ngroup_instance_id = "worker-1"\n')
    )
    first = bus.start_worker(config)
    await bus.publish(REQUESTS[:10])
    await bus.terminals(10)
    second = bus.start_worker(config)

    def named() -> bool:
        return "kafka.group_instance_id" in str(first.health["reasons"])

    await until(named, "the first says who has its place", LIMIT_S)
    await until(lambda: bool(second.health["ready"]), "the second is ready", LIMIT_S)
    await bus.publish(REQUESTS[10:])
    assert len(await bus.terminals(20)) == 20
    assert len(bus.calls()) == 20
    assert second.health["ready"]
    assert not first.health["ready"]
    assert first.terminate() == 0


async def test_many_other_groups_on_a_broker_are_distinguished(bus: Bus) -> None:
    """Each group is asked about by itself: together, aiokafka reads all but one wrongly."""
    config = bus.config([{"reply": ANSWERED}])
    worker = bus.start_worker(config)
    await bus.publish(REQUESTS[:1])
    await bus.terminals(1)
    names = [f"{bus.prefix}.reader-{number}" for number in range(5)]
    readers = [
        Consumer({"bootstrap.servers": bus.bootstrap, "group.id": name, "log_level": 0})
        for name in names
    ]
    for reader in readers:
        reader.subscribe([bus.topic(REQUESTS_TOPIC)])

    def join() -> bool:
        return all(reader.poll(0.05) or reader.assignment() for reader in readers)

    await until(join, "all readers have joined", LIMIT_S)
    async with kafka_admin(bus.bootstrap) as admin:
        found = await groups_of_workers(admin, bus.topic(REQUESTS_TOPIC))
        for reader in readers:
            reader.close()

    assert {name: found[name] for name in names} == dict.fromkeys(names, False)
    assert found[f"{bus.prefix}.worker"]
    assert worker.health["other_groups"] == []
