"""InitProducerId as of version 3 (KIP-360), which aiokafka lacks: the next epoch of a producer."""

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactString, Int16, Int32, Int64, Schema, TaggedFields

API_KEY = 22
API_VERSION = 3  # Kafka 2.5; from 4 on the broker also answers with an error that aiokafka lacks
_PRODUCER = (("producer_id", Int64), ("producer_epoch", Int16))


class _Answer(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = API_KEY
    API_VERSION = API_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32), ("error_code", Int16), *_PRODUCER, ("tags", TaggedFields)
    )


class _Struct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = API_KEY
    API_VERSION = API_VERSION
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("transactional_id", CompactString("utf-8")),
        ("transaction_timeout_ms", Int32),
        *_PRODUCER,
        ("tags", TaggedFields),
    )


class NextEpochRequest(Request[_Struct]):  # type: ignore[misc]
    """Granted to the producer that has the last epoch, and to nobody else.

    As of version 0 anybody is granted one: a producer whose transactional id has a new owner would
    shut that owner out.
    """

    API_KEY = API_KEY

    def __init__(self, transactional_id: str, timeout_ms: int, producer: tuple[int, int]) -> None:
        """`producer` is its id and its epoch."""
        self._fields = transactional_id, timeout_ms, *producer

    def build(self, request_struct_class: type[_Struct]) -> _Struct:
        """See aiokafka."""
        return request_struct_class(*self._fields, {})
