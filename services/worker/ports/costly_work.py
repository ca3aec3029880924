"""The port of event loops to work that is too costly for them.

To add a kind of work: write a function without effects at the top level of a module, with a result
and arguments that can be pickled, and call `await costly_work.run(owner, function, *arguments)`
where a bound on its work exceeds what the loop may be held for (20 ms). Owners, such as workflows,
have their turn one by one. `EndedAtLimit` is a result like any other: say what it means there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The limits of one piece of work, `memory_bytes` beyond those at the process's start."""

    memory_bytes: int = 512 * MIB
    cpu_s: int = 3
    wall_s: float = 30.0


@dataclass(frozen=True, slots=True)
class EndedAtLimit:
    """The work was ended: at a limit, or since it ended its process (`crash`)."""

    limit: Literal["memory", "cpu_time", "wall_time", "crash"]


class CostlyWork(Protocol):
    """Runs functions where they hold no event loop."""

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        ...

    async def run(
        self, owner: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | EndedAtLimit:
        """The result of `work`; what it raises is raised here."""
        ...

    async def close(self) -> None:
        """End what runs, and release the process."""
        ...


class InPlace:
    """Does the work at once and in this process, for tests with a virtual clock."""

    waiting = 0

    async def run(
        self,
        owner: str,  # noqa: ARG002 - it is alone
        work: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T | EndedAtLimit:
        return work(*args, **kwargs)

    async def close(self) -> None:
        """See CostlyWork."""
