"""What a worker counts that leaves no event behind."""

from dataclasses import dataclass


@dataclass(slots=True)
class WorkerCounters:
    """Totals since the worker's start, over all of its lanes; the last three are of this moment."""

    duplicates: int = 0
    forwarded: int = 0
    unreadable: int = 0  # records that no client can read, each with its dead letter
    unread: int = 0  # requests that retention deleted before they were read
    held: int = 0  # retries in memory
    requests: int = 0  # in memory, as backpressure counts them
    lanes: int = 0  # that take requests in
