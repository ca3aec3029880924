"""A history with runs: the faults are those of all histories; tools and people are added."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from answerbus.topics import RUNS
from tests.simulation.agents.model import RunModel
from tests.simulation.agents.people import People
from tests.simulation.agents.questions import has_questions
from tests.simulation.agents.setting import BEST_OF, CALLS, LEADS, PREFIX, SUPPORT
from tests.simulation.agents.tool_servers import ToolServers
from tests.simulation.history import History
from tests.simulation.timeline import START_S
from tests.simulation.upstream import Upstream
from tests.unit.worker.builders import NOW

CANCELS_AFTER_S_MAX = 30.0


@dataclass(slots=True)
class RunUpstream(Upstream):
    """Most of what is asked is a run."""

    def _body(self, workflow: str) -> dict[str, Any]:
        body = Upstream._body(self, workflow)
        kind = self.chance.choice(("run", "run", "run", "endless", "again", "best", "best", None))
        if kind is None or "profile" in body:
            return body
        more = {
            "request_id": f"{kind}-{len(self.bodies)}",
            "agent": {"name": self.chance.choice((*SUPPORT, *LEADS, *LEADS))},
            "budget": {"attempts": self.chance.choice((2, 5, 9, 33, 60))},
            "ttl_s": self.chance.choice((60, 200, 300)),
        }
        if kind == "best":
            more["agent"] = {"name": BEST_OF}
        if self.chance.random() < 0.05:
            more["agent"] = {"name": "nobody"}
        return body | more


class RunHistory(History):
    """See the module."""

    def __init__(self, seed: int, *, next_rebalance: bool = False) -> None:
        super().__init__(seed, next_rebalance=next_rebalance)
        chance = random.Random(f"runs {seed}")
        self.cluster.partitions[CALLS] = chance.choice((1, 3))
        self.model = RunModel(seed, self.timeline, chance.choice((0.0, 0.1, 0.4)))
        self.provider = self.model
        self.tools = ToolServers(self.cluster, seed, partitions=self.partitions)
        self.people = People(self.cluster, seed, partitions=self.partitions)
        self.second = self.model.second()
        self.world = replace(
            self.world,
            provider=self.model,
            second=self.second,
            has_agents=True,
            has_questions=has_questions(seed),
        )
        requests = chance.choice((3, 6, 9))
        self._upstream = RunUpstream(
            self.chance, self.partitions, requests, self.there, self._parents, equal_ids=False
        )
        self._people_chance = chance

    @property
    def stable_from(self) -> datetime:
        """Since when nothing is disturbed any more."""
        return NOW + timedelta(seconds=self.stable_at - START_S)

    async def run(self) -> None:
        """Raises StuckError."""
        self.tools.serve()
        self.people.look()
        await super().run()

    async def _publish(self) -> None:
        chance = self._people_chance
        for _ in range(chance.choice((0, 0, 1, 3))):
            workflow = f"w-{chance.randint(0, 3)}"
            kind = chance.choice(("run", "run", "endless", "again", "r"))
            name = chance.choice((f"{kind}-{chance.randint(0, 6)}", None))
            self.people.cancel(chance.uniform(0, CANCELS_AFTER_S_MAX), workflow, name)
        await super()._publish()

    def _is_all_ended(self) -> bool:
        is_said = not self.tools.pending and self._is_all_read()
        return is_said and super()._is_all_ended() and not any(self._open_records())

    def _open_records(self) -> Iterator[bytes]:
        """What is kept of open requests; a cancellation of what never comes is kept for a day."""
        for (topic, _), log in self.cluster.logs.items():
            if topic == RUNS.full_name(PREFIX):
                entries, _ = log.read(0, len(log.entries))
                last = {entry.key or b"": entry.value for entry in entries}
                yield from (k for k, v in last.items() if v is not None and b"run_cancel" not in v)
