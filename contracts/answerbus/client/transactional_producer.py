"""aiokafka's transactional producer; it sends nothing more of a transaction that has failed."""

from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.producer.transaction_manager import TransactionState

_FAILED = {TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR}


class TransactionalProducer(AIOKafkaProducer):  # type: ignore[misc]  # aiokafka has no types
    """Its transactions are whole, also where one topic of them may not be written.

    Where the coordinator refuses one partition, for want of a right, it adds none. aiokafka sends
    the records for the others all the same, and a broker that has not yet written the marker of the
    transaction before takes them for a part of that one: they are committed, and the rest is not.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._drain = self._message_accumulator.drain_by_nodes
        self._message_accumulator.drain_by_nodes = self._drained

    def _drained(self, *given: Any, **options: Any) -> Any:
        """What is to be sent now; of a transaction that has failed nothing, and its sends fail."""
        manager = self._txn_manager
        if manager is not None and manager.state in _FAILED:
            waiter = manager.wait_for_transaction_end()
            error = waiter.exception() if waiter is not None and waiter.done() else None
            self._message_accumulator.fail_all(error or ConnectionError("the transaction failed"))
            return {}, False
        return self._drain(*given, **options)
