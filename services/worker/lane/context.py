"""The objects that all lanes of a worker share: settings, backends, clock, chance, call slots."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from answerbus.outcome import Origin
from answerbus.request import Request
from services.worker.core.budget.accounts import AccountMemory
from services.worker.core.budget.closed import IdMemory
from services.worker.core.outcome.decide import Backoff
from services.worker.core.request.admit import Admitted
from services.worker.core.request.tenant import TENANT_LABEL
from services.worker.core.run.tool_access import ToolAccess
from services.worker.core.shared_budget.rules import BudgetRules
from services.worker.lane.siblings import Siblings
from services.worker.limits.isolation import Isolation
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner
from services.worker.ports.clock import MeasuredClock
from services.worker.ports.costly_work import CostlyWork, InPlace
from services.worker.ports.observer import Observer, Observers, WorkerCounters


@dataclass(slots=True)
class Limits:
    """How much a worker and each of its lanes take on; changed where all of them see it."""

    max_in_flight: int
    held_max: int
    lane_requests_max: int
    lane_bytes_max: int
    handover_s: float = 30.0  # for the calls of a predecessor that is still alive
    id_memory: IdMemory = field(default_factory=IdMemory)
    account_memory: AccountMemory = field(default_factory=AccountMemory)


def _as_it_is(admitted: Admitted) -> Admitted:
    return admitted


IsResumed = Callable[[Request, Origin], Awaitable[bool]]
"""Whether an operator sent the steps from which a request goes on; it stood first at the origin."""


async def _by_nobody(_: Request, __: Origin) -> bool:
    return False


READ_AT_ONCE = 2

MembersOf = Callable[[str], Awaitable[int]]
"""The number of consumers that are members of a group now."""


OffsetOf = Callable[[str, int], Awaitable[int]]
"""A group's committed offset for a partition of the requests; 0 if unknown."""


async def _no_offset(_: str, __: int) -> int:
    return 0


async def _no_members(_: str) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The parts that lanes need for runs.

    `is_on`: the topics of runs are there and may be used; without them nothing can be cancelled.
    `off_because` says why not, for people, where some of them are there.
    `has_agents`: the worker was started with agents, and follows the cards of their tools; else
    only of those tools that open runs need.
    `complete` adds to a request what the settings of its agent say.
    """

    is_on: bool = False
    off_because: str | None = None
    has_agents: bool = False
    tools: ToolAccess = field(default_factory=lambda: ToolAccess(secrets.token_bytes))
    complete: Callable[[Admitted], Admitted] = _as_it_is
    is_resumed: IsResumed = _by_nobody


@dataclass(frozen=True, slots=True)
class LaneContext:
    """See the module; `watch` is held where a crash mark stands (lane/crash_mark.py).

    `in_line`: of all that is not a lone call, one thing at a time waits for `watch`.
    `reading`: so many lanes read their past at once, each with megabytes of it in its hands.
    `siblings`: no lane is opened before they have settled.
    """

    worker: str
    partitions: int
    planner: Planner
    clock: MeasuredClock
    jitter: Callable[[], float]
    backoff: Backoff
    limits: Limits
    slots: Slots
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    observer: Observer = field(default_factory=Observers)
    group: str | None = None  # of the consumers that share the partitions
    former_group: str | None = None  # another that had the lanes when the worker started
    members_of: MembersOf = _no_members
    offset_of: OffsetOf = _no_offset
    runs: RunSetup = field(default_factory=RunSetup)
    isolation: Isolation = field(default_factory=Isolation)
    watch: asyncio.Lock = field(default_factory=asyncio.Lock)
    in_line: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READ_AT_ONCE))
    siblings: Siblings = field(default_factory=Siblings)
    costly_work: CostlyWork = field(default_factory=InPlace)
    tenant_label: str = TENANT_LABEL
    budget_rules: BudgetRules = field(default_factory=BudgetRules)
