"""The broker without Docker is a real one: transactions, restarts, crashes, clear complaints."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from infra.kafka import Broker, find_broker, make_class_file, start_broker
from infra.kafka.java import class_file
from infra.ports import free_ports, is_free
from infra.server_process import command_line
from infra.setup_error import SetupError

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0
TOPIC = "things"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder, with a letter that Java's property files escape; no broker outlives it."""
    folder = tmp_path / "Kafka für Tests €"
    yield folder
    left = find_broker(folder)
    if left is not None:
        left.kill()


async def publish(broker: Broker, committed: list[bytes], aborted: list[bytes]) -> None:
    """One transaction that is committed, then one that is aborted."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="test")
    async with producer:
        async with producer.transaction():
            for value in committed:
                await producer.send_and_wait(TOPIC, value, partition=0)
        await producer.begin_transaction()
        for value in aborted:
            await producer.send_and_wait(TOPIC, value, partition=0)
        await producer.abort_transaction()


async def committed(broker: Broker) -> list[bytes]:
    """All values up to the last stable offset, as a read_committed reader sees them."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            batches = await consumer.getmany(partition, timeout_ms=100)
            values += [record.value for records in batches.values() for record in records]
    return values


def write_then_read(broker: Broker) -> list[bytes]:
    async def both() -> list[bytes]:
        async with asyncio.timeout(LIMIT_S):
            await publish(broker, committed=[b"1", b"2"], aborted=[b"never"])
            return await committed(broker)

    return asyncio.run(both())


def read(broker: Broker) -> list[bytes]:
    return asyncio.run(asyncio.wait_for(committed(broker), LIMIT_S))


def command(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "infra.kafka", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def outcome(process: "subprocess.Popen[str]") -> tuple[int, str]:
    printed, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, printed


def test_transactions_are_real_and_a_stop_keeps_the_records(data: Path) -> None:
    with start_broker(data) as broker:
        before = write_then_read(broker)

    assert not broker.running
    assert is_free(broker.port)
    with start_broker(data) as again:
        assert (before, read(again)) == ([b"1", b"2"], [b"1", b"2"])


def test_classes_are_read_from_the_file_that_was_made_of_them(data: Path) -> None:
    make_class_file()
    with start_broker(data) as broker:
        assert f"-XX:AOTCache={class_file()} " in command_line(broker.pid)

    assert "[aot" not in (data / "kafka.log").read_text(), "what Java says of a file it cannot use"


def test_a_killed_broker_starts_again_on_the_same_port_and_data(data: Path) -> None:
    with start_broker(data) as broker:
        write_then_read(broker)
        broker.kill()

        assert find_broker(data) is None
        with start_broker(data, broker.port) as again:
            assert again.bootstrap_servers == broker.bootstrap_servers
            assert again.pid != broker.pid
            assert read(again) == [b"1", b"2"]


def test_a_taken_port_is_named_before_java_starts(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SetupError) as raised:
            start_broker(data, port)

    expected = f"Port {port} is taken: stop what listens there, or choose another."
    assert str(raised.value) == expected
    assert sorted(path.name for path in data.iterdir()) == ["start.lock"]


def test_an_early_end_is_explained_by_the_log(data: Path) -> None:
    with pytest.raises(SetupError) as raised:
        start_broker(data, properties={"authorizer.class.name": "no.such.Authorizer"})

    assert "kafka ended before it was ready with code 1; the end of " in str(raised.value)
    assert "no.such.Authorizer" in str(raised.value)
    assert find_broker(data) is None


def test_a_folder_that_cannot_be_formatted_is_explained(data: Path) -> None:
    with pytest.raises(SetupError) as raised:
        start_broker(data, properties={"node.id": "not a number"})

    assert str(raised.value).startswith(f"Kafka cannot format {data}:\n")
    assert "Invalid value not a number for configuration broker.id" in str(raised.value)


@pytest.mark.parametrize(
    "state",
    [
        json.dumps({"pid": os.getpid(), "port": 9092}),  # the pid of another program: this one
        json.dumps({"pid": 2**22 + 1, "port": 9092}),  # beyond the highest pid
        json.dumps({"pid": 1}),
        "[]",
        "{cut sho",
    ],
    ids=["of another program", "of none", "without a port", "of another shape", "cut short"],
)
def test_a_stale_state_file_is_no_broker(data: Path, state: str) -> None:
    data.mkdir()
    (data / "broker.json").write_text(state)

    assert find_broker(data) is None


def test_start_status_and_stop_find_each_other(data: Path) -> None:
    (port,) = free_ports(1)
    where = ["--data", str(data)]
    starting = command("start", "--port", str(port), *where)
    started = outcome(starting)
    broker = find_broker(data)

    assert started[0] == 0
    assert f"is ready at 127.0.0.1:{port} (pid " in started[1]
    assert broker is not None
    assert os.getsid(broker.pid) == broker.pid  # no Ctrl-C of the terminal can reach it
    assert outcome(command("status", *where))[0] == 0
    assert outcome(command("start", "--port", str(port), *where))[0] == 0
    with pytest.raises(SetupError, match=r"is in use by the broker at .*: stop that one first\.$"):
        start_broker(data)
    assert outcome(command("stop", *where))[0] == 0
    assert not broker.running
    assert outcome(command("status", *where)) == (1, f"No Kafka runs on {data}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_a_signal_stops_the_broker(data: Path, number: signal.Signals) -> None:
    foreground = command("start", "--foreground", "--port", "0", "--data", str(data))
    assert foreground.stdout is not None
    for line in foreground.stdout:
        if "is ready at" in line:
            break
    broker = find_broker(data)
    assert broker is not None
    assert broker.answers()
    foreground.send_signal(number)

    assert outcome(foreground) == (0, "Stopping Kafka\n")
    assert not broker.running


def test_a_signal_to_a_run_of_tests_stops_the_broker_of_a_test(tmp_path: Path) -> None:
    test = "tests/integration/test_client_broker_away.py"
    arguments = ("-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}", test)
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
    ) as run:
        deadline = time.monotonic() + LIMIT_S
        while not (states := list(tmp_path.rglob("broker.json"))):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        broker = find_broker(states[0].parent)
        assert broker is not None
        run.terminate()
        assert run.wait(LIMIT_S)

    assert not broker.running
