"""What a lane's transaction says of an error that its client gives without a name."""

from typing import Any, cast

import pytest
from aiokafka.errors import TopicAuthorizationFailedError

from answerbus.client.diagnosis import describe_error
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka.shard import KafkaShard, Names


class Producer:
    """Its user may not read the requests any more."""

    async def begin_transaction(self) -> None:
        pass

    async def send_offsets_to_transaction(self, *_: object) -> None:
        raise TopicAuthorizationFailedError


async def test_a_refused_offset_names_the_requests_topic() -> None:
    shard = KafkaShard(Names("acme", "acme.worker", 0, {}), BrokerClock())
    shard._producer = cast("Any", Producer())
    with pytest.raises(TopicAuthorizationFailedError) as raised:
        await shard.commit([], 7)
    assert "no right to the topic acme.requests.v1 " in describe_error(raised.value)
