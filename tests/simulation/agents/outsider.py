"""A client outside of the workers: it reads what is committed to a topic, and writes to it."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.agents.setting import Json
from tests.simulation.cluster import Cluster
from tests.simulation.log import Headers
from tests.simulation.process import OUTSIDE

RETRY_S = 0.5  # while the broker is away


@dataclass(slots=True)
class Outsider:
    """In no process of ours; `seed` decides what it does, `pending` is what it has yet to say."""

    cluster: Cluster
    seed: int
    pending: int = 0
    _positions: Counter[int] = field(default_factory=Counter)

    def watch(self, topic: str, partitions: int, take: Callable[[Json, Headers], None]) -> None:
        """From now on it is told each event."""

        def on_growth(grown: str) -> None:
            if grown != topic:
                return
            for partition in range(partitions):
                log = self.cluster.log(topic, partition)
                entries, self._positions[partition] = log.read(self._positions[partition], 500)
                for entry in entries:
                    take(json.loads(entry.value or b"{}"), entry.headers)

        self.cluster.watchers.append(on_growth)

    def say(
        self,
        after_s: float,
        who: str,
        what: str,
        topic: str,
        partition: int,
        body: Json,
        headers: Headers = (),
    ) -> None:
        """Write an event, once the broker is there."""

        def write() -> None:
            self.pending -= 1
            if self.cluster.is_away:
                self.say(RETRY_S, who, what, topic, partition, body, headers)
                return
            self.cluster.timeline.tell(what, who=who)
            key, value = body["workflow_id"].encode(), json.dumps(body).encode()
            self.cluster.produce(None, 0, [(topic, partition, key, value, headers)])

        self.pending += 1
        asyncio.get_running_loop().call_later(after_s, write, context=OUTSIDE)
