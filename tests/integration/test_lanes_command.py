"""A record that no worker can read keeps its lane shut, is shown, and is skipped for a reason."""

import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.partition import partition_of
from answerbus.topics import LEDGER, RETRIES, RUN_TOPICS, RUNS, Topic
from tests.integration.bus import ANSWERED, Bus, create_topics, request, until
from tests.integration.command_line import Ended, answerbus

pytestmark = pytest.mark.kafka

WORKFLOW = "order-1"
NEWER = json.dumps({"kind": "account", "v": 2, "account_id": WORKFLOW}).encode()
HOSTILE = b'{"kind":"\x1b[2J\xe2\x80\xae\xff' + b"x" * 500


async def put(bus: Bus, topic: Topic, key: bytes, value: bytes) -> int:
    place = bus.topic(topic), partition_of(WORKFLOW, bus.partitions)
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        sent = await producer.send_and_wait(place[0], value, key, place[1])
    return int(sent.offset)


async def lanes(bus: Bus, *arguments: str) -> Ended:
    return await answerbus(bus.bootstrap, bus.prefix, "lanes", *arguments)


async def shown(bus: Bus, code: int) -> list[dict[str, Any]]:
    ended = await lanes(bus, "show", "--json")
    assert ended.code == code, ended
    return [one for lane in json.loads(ended.out) for one in lane["unreadable"]]


@pytest.mark.long
async def test_an_unreadable_record_is_shown_and_passed_by(bus: Bus) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    partition = partition_of(WORKFLOW, bus.partitions)
    places = {
        "ledger": await put(bus, LEDGER, b"closed:r-0", HOSTILE),
        "retries": await put(bus, RETRIES, b"r-7", b"nonsense"),
        "runs": await put(bus, RUNS, b"r-8/1", b"nonsense"),
    }
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}]))
    await bus.publish([request("r-1", WORKFLOW)])
    await until(lambda: str(partition) in worker.health["stuck"], "it says what it is stuck on")
    why = worker.health["stuck"][str(partition)]
    assert "offset 0, cannot be read: " in why
    assert "(and 2 more)" in why

    found = await shown(bus, 1)
    assert {one["topic"]: one["offset"] for one in found} == {
        bus.topic(topic): 0 for topic in (LEDGER, RETRIES, RUNS)
    }
    assert [one["bytes"] for one in found if one["topic"] == bus.topic(LEDGER)] == [len(HOSTILE)]
    assert "that 'r-0' has had its outcome" in str(found)
    human = await lanes(bus, "show")
    assert human.out.isascii() or set(human.out) - set(map(chr, range(128))) <= {"…"}
    assert "\\x1b[2J" in human.out

    where = ("--partition", str(partition), "--offset", "0", "--reason", "an exercise")
    for topic in places:
        ended = await lanes(bus, "skip", "--topic", topic, *where, "--by", "ops@acme")
        assert ended.code == 0, ended
        assert ended.out.startswith("Skipped. Lost with it: ")

    (terminal,) = await bus.terminals(1, 60.0)
    assert (terminal["kind"], terminal["request_id"]) == ("result", "r-1")
    assert worker.health["stuck"] == {}
    assert {one["skipped"]["by"] for one in await shown(bus, 0)} == {"ops@acme"}
    assert worker.terminate() == 0
    await bus.settled()
    audit = await answerbus(bus.bootstrap, bus.prefix, "audit", "verify", "--json")
    body = json.loads(audit.out)
    assert (audit.code, body["whole"]) == (0, True)
    passed_by = {one["topic"]: one for one in body["passed_by"]}
    assert passed_by.keys() == {bus.topic(LEDGER), bus.topic(RETRIES)}
    for one in passed_by.values():
        assert (one["offset"], one["by"], one["reason"]) == (0, "ops@acme", "an exercise")
    people = await answerbus(bus.bootstrap, bus.prefix, "audit", "verify")
    assert "skipped" in people.out


async def test_what_may_be_read_or_is_newer_is_not_passed_by(bus: Bus) -> None:
    partition = str(partition_of(WORKFLOW, bus.partitions))
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}]))
    await bus.publish([request("r-1", WORKFLOW)])
    await bus.terminals(1)
    assert worker.terminate() == 0
    await bus.settled()
    newer = await put(bus, LEDGER, b"account:order-1", NEWER)

    async def skip(offset: int, *more: str) -> Ended:
        where = ("--topic", "ledger", "--partition", partition, "--offset", str(offset))
        return await lanes(bus, "skip", *where, "--reason", "r", *more)

    for offset, words in (
        (0, "Workers can read this record"),
        (999, "There is no record at this offset"),
        (newer, "A newer version of answerbus has written this record"),
    ):
        ended = await skip(offset)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith(words)
    assert "what the account 'order-1' had spent" in (await skip(newer)).err
    assert (await shown(bus, 1))[0]["newer_version"] is True
    assert (await skip(newer, "--newer-version")).code == 0
    assert (await skip(newer)).out.startswith("It was skipped already, by ")
    nowhere = await lanes(
        bus, "skip", "--topic", "retries", "--partition", "999", "--offset", "0", "--reason", "r"
    )
    assert nowhere.code == 1


async def write_lane(bus: Bus, partition: int, **reply: Any) -> int:
    """What somebody wrote who should not write here: it can be read, and is wrong."""
    lane = {"kind": "lane", "v": 1, "openings_without_progress": 0, "worker": "somebody", **reply}
    value = json.dumps({**lane, "at": "2026-11-21T08:59:58.000Z"}).encode()
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        sent = await producer.send_and_wait(bus.topic(LEDGER), value, b"lane", partition)
    return int(sent.offset)


@pytest.mark.parametrize(
    ("partition", "reply"),
    [
        (0, {"partitions": 2}),
        pytest.param(0, {"partitions": 9}, marks=pytest.mark.long),
        pytest.param(2, {"partitions": 3, "moving_to": 9}, marks=pytest.mark.long),
    ],
)
async def test_lanes_disagree_about_the_number_of_partitions(
    bus: Bus, partition: int, reply: dict[str, Any]
) -> None:
    """One lane's record tells another number: that lane is shut, no other, and it can be opened."""
    config = bus.config([{"reply": ANSWERED}])
    worker = bus.start_worker(config)
    workflows: dict[int, str] = {}
    for number in range(100):
        workflows.setdefault(partition_of(f"w-{number}", bus.partitions), f"w-{number}")
    await bus.publish([request(f"early-{at}", name) for at, name in workflows.items()])
    await bus.terminals(bus.partitions)
    worker.terminate()
    offset = await write_lane(bus, partition, **reply)

    worker = bus.start_worker(config)
    await bus.publish([request(f"r-{at}", name) for at, name in workflows.items()])
    await bus.terminals(2 * bus.partitions - 1)
    await until(lambda: str(partition) in worker.health["stuck"], "it says what it is stuck on")
    health = worker.health
    assert set(health["stuck"]) == {str(partition)}
    assert "`answerbus lanes skip` passes it by" in health["stuck"][str(partition)]
    refused = await answerbus(bus.bootstrap, bus.prefix, "topics", "move", "--partitions", "7")
    assert refused.code == 3
    (found,) = await shown(bus, 1)
    assert (found["partition"], found["topic"]) == (partition, bus.topic(LEDGER))
    assert found["offset"] == offset
    assert f"it says {reply['partitions']} partitions" in found["problem"]

    where = ("--topic", "ledger", "--partition", str(partition), "--offset", str(offset))
    ended = await lanes(bus, "skip", *where, "--reason", "an exercise")
    assert ended.code == 0, ended
    await bus.terminals(2 * bus.partitions, 60.0)
    await until(lambda: bool(worker.health["ready"]), "it is ready")
    assert [one["skipped"] is None for one in await shown(bus, 0)] in ([], [False])
    worker.terminate()


async def test_no_move_is_made_where_one_lane_differs(bus: Bus) -> None:
    for partition in range(bus.partitions):
        wrong = partition == bus.partitions - 1
        await write_lane(bus, partition, partitions=bus.partitions + wrong * 3)
    before = len(await bus.records(LEDGER))

    for options in (("--dry-run",), ()):
        ended = await answerbus(
            bus.bootstrap, bus.prefix, "topics", "move", "--partitions", "2", *options
        )
        assert ended.code == 3
        assert f"lane {bus.partitions - 1}: it says" in ended.err
        assert "Nothing was moved." in ended.err
    assert len(await bus.records(LEDGER)) == before
