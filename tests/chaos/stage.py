"""Plays faults on a fleet and its brokers, each at its time, without ever waiting for one."""

import heapq
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from infra.kafka import Cluster
from tests.chaos.clocks import RIGHT, SHIFTS, Clocks
from tests.chaos.faults import OF_TOOLS, Fault, Kind
from tests.chaos.fleet import RESTART_S, Fleet, Worker
from tests.chaos.rights import TAKEN, WorkersRights

_FIRST_GUEST = 1_000  # guests sit behind the slots of the fleet


@dataclass(frozen=True)
class Grips:
    """What a hostile run lays hands on beside processes."""

    clocks: Clocks
    rights: WorkersRights


@dataclass
class Stage:
    """`say` is told each thing that happens; `now_s` is advanced by `play`."""

    fleet: Fleet
    cluster: Cluster
    say: Callable[[str], None]
    tools: Fleet | None = None
    grips: Grips | None = None
    now_s: float = 0.0
    begun: dict[str, int] = field(default_factory=dict)  # how many faults, by what they are
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)
    _is_lost: bool = False
    _losses: int = 0
    _helper: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _restarting: "Future[None] | None" = None

    def schedule(self, faults: list[Fault]) -> None:
        """Take the faults of a run."""
        for fault in faults:
            self._at(fault.at_s, partial(self._begin, fault))

    def play(self, now_s: float) -> None:
        """Do what is due; a broker that did not come back raises here."""
        self.now_s = now_s
        if self._restarting and self._restarting.done():
            self._restarting.result()
            self._restarting = None
            self.say("all brokers are back")
        while self._due and self._due[0][0] <= now_s:
            heapq.heappop(self._due)[2]()
        for fleet in self.fleets:
            fleet.supervise(partial(self._replace, fleet))

    @property
    def is_over(self) -> bool:
        """Whether everything has happened and all brokers are there."""
        is_settled = self.grips is None or self.grips.rights.is_settled
        return not self._due and self._restarting is None and is_settled

    @property
    def fleets(self) -> list[Fleet]:
        """The workers, and the tool servers if there are any."""
        return [self.fleet, *([self.tools] if self.tools else [])]

    def close(self) -> None:
        """Wait for brokers that are just being started, and stop all."""
        if self.grips:
            self.grips.rights.close()
        self._helper.shutdown()
        self.cluster.stop()

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), act))

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._at(self.now_s + delay_s, act)

    def _begin(self, fault: Fault) -> None:
        slot, lasts_s = fault.slot, fault.lasts_s
        self.begun[fault.kind.value] = self.begun.get(fault.kind.value, 0) + 1
        fleet = self.tools if fault.kind in OF_TOOLS else self.fleet
        assert fleet
        self.say(f"{fault.kind.value}: {fleet.name} {slot}, {lasts_s:.1f} s")
        match fault.kind:
            case Kind.KILL | Kind.TOOL_KILL:
                self._end(fleet, slot, signal.SIGKILL, lasts_s)
            case Kind.TERM | Kind.TOOL_TERM:
                self._end(fleet, slot, signal.SIGTERM, lasts_s)
            case Kind.STOP | Kind.TOOL_STOP:
                self._freeze(fleet.slots.get(slot), lasts_s)
            case Kind.GUEST:
                guest = _FIRST_GUEST + next(self._numbers)
                self.fleet.start(guest)
                self._after(lasts_s, lambda: self.fleet.send(guest, signal.SIGTERM))
            case Kind.BROKER:
                self._lose_broker(lasts_s)
            case Kind.CLOCK:
                self._set_clock(slot, SHIFTS[fault.number % len(SHIFTS)], lasts_s)
            case Kind.RIGHTS:
                self._take_right(fault.number % len(TAKEN), lasts_s)

    def _set_clock(self, slot: int, shift: str, lasts_s: float) -> None:
        assert self.grips
        clocks = self.grips.clocks
        self.say(f"the clock of worker {slot}: {shift}")
        clocks.set_off(slot, shift)
        self._after(lasts_s, lambda: clocks.set_off(slot, RIGHT))

    def _take_right(self, number: int, lasts_s: float) -> None:
        assert self.grips
        rights = self.grips.rights
        if rights.take(number):
            kind, name, operation = TAKEN[number]
            self.say(f"no {operation.name} on the {kind.name} {name}")
            self._after(lasts_s, lambda: rights.give_back(number))

    def _end(self, fleet: Fleet, slot: int, number: signal.Signals, lasts_s: float) -> None:
        fleet.send(slot, number)
        self._after(lasts_s, lambda: fleet.start(slot))

    def _freeze(self, worker: Worker | None, lasts_s: float) -> None:
        if worker and not worker.has_ended:
            worker.send(signal.SIGSTOP)
            self._after(lasts_s, partial(_wake, worker))

    def _lose_broker(self, lasts_s: float) -> None:
        """One is killed; of several, every other time each is restarted instead, in good order."""
        if self._restarting or self._is_lost:
            return
        self._losses += 1
        if self.cluster.size > 1 and self._losses % 2 == 0:
            self.say("the brokers are restarted one after the other")
            self._restarting = self._helper.submit(self._roll)
            return
        number = round(lasts_s * 1_000) % self.cluster.size
        self.say(f"broker {number} is gone")
        self._is_lost = True
        self.cluster.kill(number)
        self._after(lasts_s, self._restart)

    def _restart(self) -> None:
        self._is_lost = False
        self._restarting = self._helper.submit(self.cluster.start)

    def _roll(self) -> None:
        for number in range(self.cluster.size):
            self.cluster.end(number)
            self.cluster.start()

    def _replace(self, fleet: Fleet, slot: int) -> None:
        self.say(f"{fleet.name} {slot} ended by itself")
        if slot < _FIRST_GUEST:
            self._after(RESTART_S, lambda: fleet.start(slot))


def _wake(worker: Worker) -> None:
    if not worker.has_ended:
        worker.send(signal.SIGCONT)
