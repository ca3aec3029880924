"""Polls the lag of the workers' group and the workers themselves, every few seconds."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import ClientError, ClientSession, ClientTimeout
from aiokafka.admin import AIOKafkaAdminClient

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.topics import REQUESTS
from services.console.state.health_history import HealthHistory
from services.console.views.status import ProfileStatus, merged, profile_status

EVERY_S = 5.0
WORKERS_EVERY_S = 2.0  # pages show within 5 s which provider is away
AGAIN_S = 1.0
READY_TIMEOUT_S = 3.0

PartT = TypeVar("PartT", dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker's `/ready` said; `body` is None if it did not answer, and `error` why."""

    address: str
    ready: bool
    body: Mapping[str, Any] | None
    error: str | None = None


@dataclass(slots=True)
class PollResults:
    """The last of each; `lag` is offsets behind by partition, None while it is not known."""

    lag: Mapping[int, int] | None = None
    committed: Mapping[int, int] = field(default_factory=dict)
    health: HealthHistory = field(default_factory=HealthHistory)
    error: str | None = None
    lagging_since: float | None = None  # without a break, in loop time
    workers: Sequence[WorkerStatus] = field(default_factory=tuple)

    @property
    def stuck(self) -> Sequence[str]:
        """Which lanes of which worker are stuck on what, and what concerns all of its lanes."""
        found = []
        for worker in self.workers:
            stuck, reasons = _part(worker, "stuck", dict), _part(worker, "reasons", list)
            found += [f"{worker.address}: {why}" for why in reasons]
            found += [f"{worker.address}, lane {lane}: {why}" for lane, why in stuck.items()]
        return found

    @property
    def profiles(self) -> Sequence[ProfileStatus]:
        """What workers say of profiles, each profile once."""
        found: dict[str, ProfileStatus] = {}
        for worker in self.workers:
            details, texts = _part(worker, "profiles", dict), _part(worker, "sick_profiles", dict)
            for name in {*details, *texts}:
                one = profile_status(str(name), details.get(name), texts.get(name))
                known = found.get(one.name)
                found[one.name] = merged(known, one) if known else one
        return tuple(found.values())

    @property
    def toolsets(self) -> Mapping[str, str]:
        """By name, why the card of a toolset is not taken, or not whole."""
        parts = (_part(worker, "toolsets", dict) for worker in self.workers)
        return {str(name): str(why) for part in parts for name, why in part.items()}

    @property
    def silent_workers(self) -> Sequence[str]:
        """Those that did not answer, and why."""
        return [
            f"{worker.address}: {worker.error}" for worker in self.workers if worker.body is None
        ]


def _part(worker: WorkerStatus, name: str, of: type[PartT]) -> PartT:
    """A part of what was said, empty where it is missing or of another kind."""
    found = worker.body.get(name) if worker.body else None
    return found if isinstance(found, of) else of()


class Poller:
    """Keeps `results` fresh. `group_id` is the workers', `addresses` are URLs without a path."""

    def __init__(self, bus: Bus, group_id: str, addresses: Sequence[str]) -> None:
        self._bus, self._group_id, self._addresses = bus, group_id, addresses
        self.results = PollResults()
        self._failed = False

    async def run(self) -> None:
        """Poll until cancelled."""
        await asyncio.gather(self._poll_broker(), self._poll_workers())

    async def _poll_broker(self) -> None:
        while True:
            try:
                await self._poll_lag()
            except BusUnavailable as error:
                # Once is nothing yet: a new broker first has to make itself a coordinator.
                self.results.error = str(error) if self._failed else None
                self.results.lag, self._failed = None, True
                await asyncio.sleep(AGAIN_S)

    async def _poll_lag(self) -> None:
        count = (await self._bus.counts(REQUESTS))[REQUESTS]
        places = [self._bus.place(REQUESTS, partition) for partition in range(count)]
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bus.servers, **self._bus.options)
        consumer = self._bus.consumer()
        async with self._bus.running(consumer):
            with self._bus.explained():
                try:
                    await admin.start()
                    while True:
                        done = await admin.list_consumer_group_offsets(self._group_id)
                        starts = await consumer.beginning_offsets(places)
                        ends = await consumer.end_offsets(places)
                        committed = {at: found.offset for at, found in done.items()}
                        self.results.committed = {
                            at.partition: max(committed.get(at, 0), starts[at]) for at in places
                        }
                        self.results.lag = {
                            at.partition: max(0, ends[at] - committed.get(at, starts[at]))
                            for at in places
                        }
                        self._note_lag(sum(self.results.lag.values()))
                        self.results.error, self._failed = None, False
                        await asyncio.sleep(EVERY_S)
                finally:
                    await admin.close()

    def _note_lag(self, lag: int) -> None:
        if not lag:
            self.results.lagging_since = None
        elif self.results.lagging_since is None:
            self.results.lagging_since = asyncio.get_running_loop().time()

    async def _poll_workers(self) -> None:
        if not self._addresses:
            return
        timeout = ClientTimeout(total=READY_TIMEOUT_S)
        async with ClientSession(timeout=timeout) as session:
            while True:
                asking = [_ask(session, address) for address in self._addresses]
                self.results.workers = await asyncio.gather(*asking)
                named = [profile.name for profile in self.results.profiles if profile.problem]
                self.results.health.take(int(time.time() * 1000), named)
                await asyncio.sleep(WORKERS_EVERY_S)


async def _ask(session: ClientSession, address: str) -> WorkerStatus:
    try:
        async with session.get(f"{address.rstrip('/')}/ready", allow_redirects=False) as response:
            if response.status == HTTPStatus.MISDIRECTED_REQUEST:
                why = "it is not asked by that name: see `worker.health_hosts`"
                return WorkerStatus(address, ready=False, body=None, error=why)
            body = await response.json()
    except (ClientError, TimeoutError, ValueError) as error:
        return WorkerStatus(address, ready=False, body=None, error=type(error).__name__)
    if not isinstance(body, dict):
        return WorkerStatus(address, ready=False, body=None, error="no object")
    return WorkerStatus(address, response.status == HTTPStatus.OK, body)
