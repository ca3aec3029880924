"""Takes rights of the workers' user away, and back, without waiting for a broker."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaException

from answerbus.topics import RUN_TOPICS, TOPICS
from tests.integration.rights import (
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Rights,
)

SETTLE_S = 120.0  # a broker that is away is waited for
PAUSE_S = 0.5
OF_TOOLSETS = ("tools.*", "toolsets.*")  # tool servers come in as the same user
# What may be taken away, by turns: its kind, its name behind the prefix, the operation.
TAKEN: tuple[tuple[Any, str, Any], ...] = (
    (GROUP, ".worker", READ),
    (TOPIC, ".requests.v1", READ),
    (TOPIC, ".results.v1", WRITE),
    (TRANSACTIONAL_ID, ".lane.*", WRITE),
)


class WorkersRights(Rights):
    """The rights of the user as which all workers come in."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap, self._prefix = bootstrap, prefix
        self._helper = ThreadPoolExecutor(1)
        self._under_way: list[Future[None]] = []
        self._taken: set[int] = set()

    @property
    def plain(self) -> str:
        """See Rights."""
        return self._bootstrap

    def give_all(self) -> None:
        """What a worker needs, each right by itself; DESCRIBE stays when the others go."""
        names = [topic.full_name(self._prefix) for topic in (*TOPICS, *RUN_TOPICS)]
        for name in (*names, *(f"{self._prefix}.{name}" for name in OF_TOOLSETS)):
            self.allow(TOPIC, name, READ, WRITE, DESCRIBE)
        self.allow(GROUP, f"{self._prefix}.worker", READ, DESCRIBE)
        self.allow(TRANSACTIONAL_ID, f"{self._prefix}.lane.*", WRITE, DESCRIBE)
        self.allow(GROUP, f"{self._prefix}.tools.*", READ, DESCRIBE)

    def take(self, number: int) -> bool:
        """Begin to take one of TAKEN away; whether it was there."""
        if number in self._taken:
            return False
        self._taken.add(number)
        kind, name, operation = TAKEN[number]
        self._submit(lambda: self.remove(kind, self._prefix + name, operation))
        return True

    def give_back(self, number: int) -> None:
        """Begin to give it back."""
        self._taken.discard(number)
        kind, name, operation = TAKEN[number]
        self._submit(lambda: self.allow(kind, self._prefix + name, operation))

    @property
    def is_settled(self) -> bool:
        """Whether all that was begun is done; raises what went wrong."""
        while self._under_way and self._under_way[0].done():
            self._under_way.pop(0).result()
        return not self._under_way

    def close(self) -> None:
        """What has not begun is left."""
        self._helper.shutdown(cancel_futures=True)

    def _submit(self, change: Callable[[], object]) -> None:
        self._under_way.append(self._helper.submit(_until_done, change))


def _until_done(change: Callable[[], object]) -> None:
    limit = time.monotonic() + SETTLE_S
    while True:
        try:
            change()
        except (KafkaException, TimeoutError):
            if time.monotonic() > limit:
                raise
            time.sleep(PAUSE_S)
        else:
            return
