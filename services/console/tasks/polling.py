"""Polls the lag of the workers' group and the workers themselves, every few seconds."""

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import ClientError, ClientSession, ClientTimeout
from aiokafka import TopicPartition

from answerbus import json_text
from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.topics import REQUESTS
from services.console.state.health_history import HealthHistory
from services.console.state.lanes import ReportedLane
from services.console.views.status import ProfileStatus, StuckLane, merged, profile_status
from services.kafka.marker_gaps import Gap, marker_gaps

EVERY_S = 5.0
WORKERS_EVERY_S = 2.0  # pages show within 5 s which provider is away
AGAIN_S = 1.0
READY_TIMEOUT_S = 3.0
READY_BYTES_MAX = 4 * 1024 * 1024
READY_VALUES_MAX = 200_000  # JSON values; a lane has some twenty

_PARTITION = re.compile(r"[0-9]{1,6}")
_USER = re.compile(r"(?<=:)//[^/]*@")  # a name and a password, before the host
_PLAIN = {"Accept-Encoding": "identity"}

PartT = TypeVar("PartT", dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The reply of a worker's `/ready`; `body` is None if it did not answer, and `error` says why.

    `name` is the one that it gave last, by which the ledger knows it.
    """

    address: str
    ready: bool
    body: Mapping[str, Any] | None
    error: str | None = None
    name: str | None = None


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
    def stuck(self) -> Sequence[StuckLane]:
        """The lanes that workers report as stuck, in their order."""
        found = [
            StuckLane(partition, worker.address, str(why))
            for worker in self.workers
            for partition, why in _by_lane(worker, "stuck").items()
        ]
        return sorted(found, key=lambda one: (one.lane, one.address))

    @property
    def worker_reasons(self) -> Sequence[str]:
        """The problems of all lanes of a worker."""
        return [
            f"{worker.address}: {why}"
            for worker in self.workers
            for why in _part(worker, "reasons", list)
        ]

    @property
    def lanes(self) -> Mapping[int, ReportedLane]:
        """The lanes as workers report them; of two workers, the one that has opened it."""
        found: dict[int, ReportedLane] = {}
        for worker in self.workers:
            stuck, oldest = _by_lane(worker, "stuck"), _by_lane(worker, "oldest_requests")
            for partition, state in _by_lane(worker, "lanes").items():
                known = found.get(partition)
                if state == "closed" or (known and known.state == "open"):
                    continue
                why, name = str(stuck.get(partition, "")), worker.name or worker.address
                request = oldest.get(partition)
                fields = request if isinstance(request, dict) else {}
                profile, waits = fields.get("profile"), fields.get("state")
                found[partition] = ReportedLane(
                    name,
                    str(state),
                    why,
                    profile if isinstance(profile, str) else None,
                    waits if isinstance(waits, str) else "",
                )
        return found

    @property
    def silent_names(self) -> frozenset[str]:
        """The names of those that did not answer, as far as they have given them."""
        return frozenset(one.name for one in self.workers if one.body is None and one.name)

    @property
    def profiles(self) -> Sequence[ProfileStatus]:
        """The profiles as workers report them, each profile once."""
        found: dict[str, ProfileStatus] = {}
        for worker in self.workers:
            former = _part(worker, "sick_profiles", dict)  # of a worker of the version before
            details = _part(worker, "profiles", dict)
            texts = _part(worker, "unhealthy_profiles", dict) or former
            for name in {*details, *texts}:
                one = profile_status(str(name), details.get(name), texts.get(name))
                known = found.get(one.name)
                found[one.name] = merged(known, one) if known else one
        return tuple(found.values())

    @property
    def servers(self) -> Mapping[str, tuple[str, ...]]:
        """By profile, the addresses of its provider: workers may have settings of their own."""
        found: dict[str, dict[str, None]] = {}
        for worker in self.workers:
            for name, server in _part(worker, "servers", dict).items():
                found.setdefault(str(name), {})[str(server)] = None
        return {name: tuple(servers) for name, servers in found.items()}

    @property
    def toolsets(self) -> Mapping[str, str]:
        """By name, why the card of a toolset is not taken, or not whole."""
        parts = (_part(worker, "toolsets", dict) for worker in self.workers)
        return {str(name): str(why) for part in parts for name, why in part.items()}

    @property
    def silent_workers(self) -> Sequence[str]:
        """Those that did not answer, and why."""
        return [
            f"{worker.name or worker.address}: {worker.error}"
            for worker in self.workers
            if worker.body is None
        ]


def _part(worker: WorkerStatus, name: str, of: type[PartT]) -> PartT:
    """A part of what was said, empty where it is missing or of another kind."""
    found = worker.body.get(name) if worker.body else None
    return found if isinstance(found, of) else of()


def _by_lane(worker: WorkerStatus, name: str) -> Mapping[int, Any]:
    """The same of a part whose keys are partitions."""
    return {
        int(key): value
        for key, value in _part(worker, name, dict).items()
        if isinstance(key, str) and _PARTITION.fullmatch(key)
    }


class Poller:
    """Keeps `results` fresh. `group_id` is the workers', `addresses` are URLs without a path."""

    def __init__(self, bus: Bus, group_id: str, addresses: Sequence[str]) -> None:
        self._bus, self._group_id, self._addresses = bus, group_id, addresses
        self.results = PollResults()
        self._gaps: Mapping[TopicPartition, Gap] = {}
        self._looked: dict[TopicPartition, Gap] = {}
        self._empty: set[TopicPartition] = set()  # of those
        self._failed = False

    @property
    def has_asked_all(self) -> bool:
        """Whether the broker and each worker were asked once."""
        return self.results.lag is not None and len(self.results.workers) == len(self._addresses)

    async def run(self) -> None:
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
        consumer = self._bus.consumer()
        async with self._bus.running(consumer), self._bus.admin() as admin:
            while True:
                places = list(await self._bus.places_of(REQUESTS))
                done = await admin.list_consumer_group_offsets(self._group_id)
                starts = await consumer.beginning_offsets(places)
                ends = await consumer.end_offsets(places)
                gaps = {
                    at: (max(done[at].offset if at in done else 0, starts[at]), ends[at])
                    for at in places
                }
                self.results.committed = {at.partition: gaps[at][0] for at in places}
                empty = await self._only_markers(gaps)
                self.results.lag = {
                    at.partition: 0 if at in empty else max(0, end - begin)
                    for at, (begin, end) in gaps.items()
                }
                self._note_lag(sum(self.results.lag.values()))
                self.results.error, self._failed = None, False
                await asyncio.sleep(EVERY_S)

    async def _only_markers(self, gaps: Mapping[TopicPartition, Gap]) -> Collection[TopicPartition]:
        """Where nothing but markers of transactions waits.

        It is looked for the first time, and again where the gap stands still.
        """
        still = {at: gap for at, gap in gaps.items() if self._gaps.get(at, gap) == gap}
        self._gaps = gaps
        self._looked = {at: gap for at, gap in self._looked.items() if still.get(at) == gap}
        self._empty &= self._looked.keys()
        new = {at: gap for at, gap in still.items() if at not in self._looked}
        self._empty |= await marker_gaps(self._bus, new)
        self._looked |= new
        return self._empty

    def _note_lag(self, lag: int) -> None:
        if not lag:
            self.results.lagging_since = None
        elif self.results.lagging_since is None:
            self.results.lagging_since = asyncio.get_running_loop().time()

    async def _poll_workers(self) -> None:
        if not self._addresses:
            return
        while True:
            await self.ask_workers()
            named = [profile.name for profile in self.results.profiles if profile.problem]
            self.results.health.take(int(time.time() * 1000), named)
            await asyncio.sleep(WORKERS_EVERY_S)

    async def ask_workers(self) -> None:
        self.results.workers = self._named(await workers_at(self._addresses))

    def _named(self, workers: Sequence[WorkerStatus]) -> Sequence[WorkerStatus]:
        """Those that do not answer keep the name that they gave before."""
        names = {worker.address: worker.name for worker in self.results.workers}
        return [
            worker if worker.name else replace(worker, name=names.get(worker.address))
            for worker in workers
        ]


async def workers_at(urls: Iterable[str]) -> Sequence[WorkerStatus]:
    """All of them at once; each connection is new, so that one that died is known."""
    timeout = ClientTimeout(total=READY_TIMEOUT_S)
    async with ClientSession(timeout=timeout, auto_decompress=False) as session:
        return await asyncio.gather(*(_ask(session, url) for url in urls))


async def _ask(session: ClientSession, url: str) -> WorkerStatus:
    """Takes no compressed answer, whose size is unknown; shows the address without a password."""
    address, place = _USER.sub("//", url), f"{url.rstrip('/')}/ready"
    try:
        async with session.get(place, headers=_PLAIN, allow_redirects=False) as response:
            if response.status == HTTPStatus.MISDIRECTED_REQUEST:
                why = "it is not asked by that name: see `worker.health_hosts`"
                return WorkerStatus(address, ready=False, body=None, error=why)
            text = bytearray()
            async for piece in response.content.iter_any():
                text += piece
                if len(text) > READY_BYTES_MAX:
                    break
    except (ClientError, TimeoutError, ValueError) as error:
        return WorkerStatus(address, ready=False, body=None, error=type(error).__name__)
    parsed = json_text.parse(bytes(text), READY_VALUES_MAX)
    body = parsed.value if isinstance(parsed, json_text.Parsed) else None
    if not isinstance(body, dict):
        return WorkerStatus(address, ready=False, body=None, error="no object")
    name = body.get("worker")
    return WorkerStatus(
        address,
        response.status == HTTPStatus.OK,
        body,
        name=name if isinstance(name, str) else None,
    )
