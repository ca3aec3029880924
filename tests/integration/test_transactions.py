"""A transaction is whole or nothing, also where one of its topics may not be written any more."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from answerbus.client.bounded import bounded
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.topics import LEDGER, RESULTS
from tests.integration.bus import Bus, create_topics
from tests.integration.rights import DESCRIBE, PASSWORD, READ, TOPIC, USER, WRITE
from tests.integration.secured import Secured

pytestmark = pytest.mark.kafka

ROUNDS = 25
LIMIT_S = 20.0


async def test_what_shares_a_transaction_with_a_refused_record_is_never_committed(
    secured: Secured, make_prefix: Callable[[], str], tmp_path: Any
) -> None:
    """It is sent behind a commit, while a broker has yet to write that one's marker."""
    bus = Bus(secured.plain, make_prefix(), 1, tmp_path)
    await create_topics(bus)
    secured.allow_worker(bus.prefix)
    secured.revoke(TOPIC, f"{bus.prefix}.*", READ, WRITE, DESCRIBE)
    ledger, results = LEDGER.full_name(bus.prefix), RESULTS.full_name(bus.prefix)
    secured.allow(TOPIC, ledger, WRITE, DESCRIBE)
    secured.allow(TOPIC, results, DESCRIBE)
    for number in range(ROUNDS):
        producer = TransactionalProducer(
            bootstrap_servers=secured.at("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=USER,
            sasl_plain_password=PASSWORD,
            transactional_id=f"{bus.prefix}.lane.0",
            retry_backoff_ms=20,
        )
        await bounded(producer.start(), LIMIT_S)
        try:
            async with producer.transaction():
                await producer.send_and_wait(ledger, b"whole", key=b"%d" % number, partition=0)
            await producer.begin_transaction()
            sent = [
                await producer.send(topic, b"refused", key=b"%d" % number, partition=0)
                for topic in (ledger, results)
            ]
            with pytest.raises(KafkaError):
                await bounded(_all_of(sent), LIMIT_S)
        finally:
            await bounded(producer.stop(), LIMIT_S)

    found = [record.value for record in await bus.records(LEDGER)]
    assert found == [b"whole"] * ROUNDS


async def _all_of(sent: list[Any]) -> list[Any]:
    return await asyncio.gather(*sent)
