"""A real Apache Kafka for every test here, from wherever one can be had; never skipped."""

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.bus import Bus, create_topics, remove_topics
from tests.integration.container import docker_answers, kafka_container
from tests.integration.secured import Secured, secured_broker
from tests.integration.tool_servers import ToolBus, ending

if TYPE_CHECKING:
    from infra.kafka import Broker

PARTITIONS = 4


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`KAFKA_BOOTSTRAP_SERVERS` if set, else a container where Docker answers, else infra/kafka."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")  # noqa: TID251 - the way to bring a broker
    if given:
        yield given
        return
    with ExitStack() as stack:
        if docker_answers():
            yield stack.enter_context(kafka_container())
            return
        from infra.kafka import make_class_file, start_broker  # noqa: PLC0415 - where it is needed

        make_class_file()
        broker = start_broker(tmp_path_factory.mktemp("kafka"))
        stack.callback(broker.stop)
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker that wants a password or a certificate, for all tests that need one."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list["Broker"]]:
    """A broker that a test may stop or kill, and those that it starts in its place."""
    from infra.kafka import start_broker  # noqa: PLC0415 - only where it is needed

    brokers = [start_broker(tmp_path / "kafka")]
    yield brokers
    for broker in brokers:
        broker.stop()


@pytest.fixture
def make_prefix() -> Callable[[], str]:
    """Topic prefixes that no other test uses."""
    return lambda: f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def bus(
    kafka_bootstrap: str, make_prefix: Callable[[], str], tmp_path: Path
) -> AsyncIterator[Bus]:
    """Topics of a test's own, with four partitions, and workers on demand."""
    bus = Bus(kafka_bootstrap, make_prefix(), PARTITIONS, tmp_path)
    await create_topics(bus)
    yield bus
    bus.stop_workers()
    await remove_topics(bus)


@pytest.fixture
def tools(
    kafka_bootstrap: str, make_prefix: Callable[[], str], tmp_path: Path
) -> Iterator[ToolBus]:
    """A broker for tool servers, without topics; what the test starts is killed."""
    with ending(ToolBus(kafka_bootstrap, make_prefix(), tmp_path)) as bus:
        yield bus
