"""A worker of a chaos run that reads its requests by the prototype on KIP-848."""

import signal
from typing import Any

from services.cli import main
from services.worker.adapters.kafka import group_consumer
from tests.benchmarks.next_rebalance.consumer import NextConsumer
from tests.chaos.worker import tell

if __name__ == "__main__":
    reads: Any = group_consumer
    reads.WatchedConsumer = NextConsumer
    signal.signal(signal.SIGUSR1, tell)
    main()
