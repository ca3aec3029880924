"""Access to tools: where their servers answer, and which calls may be written now."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.agent import AgentId
from answerbus.policy import ToolPolicy
from answerbus.private.runs import ToolDefinition
from answerbus.topics import TOOL_RESULTS

PAUSE_FIRST = timedelta(seconds=10)
PAUSE_FACTOR = 2
PAUSE_MAX = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Pause:
    length: timedelta
    until: datetime


@dataclass(slots=True)
class UnavailableToolsets:
    """Toolsets whose topic cannot be written: skipped for a while, each time longer.

    All lanes of a worker share this: a write that fails ends the transaction of its lane.
    """

    _pauses: dict[str, _Pause] = field(default_factory=dict)

    def is_available(self, toolset: str, now: datetime) -> bool:
        """Whether its calls may be written: always, but for the pauses after a failure."""
        pause = self._pauses.get(toolset)
        return pause is None or now >= pause.until

    def failed(self, toolset: str, now: datetime) -> None:
        """Its topic could not be written; lanes that find this at once count as one."""
        if not self.is_available(toolset, now):
            return
        before = self._pauses.get(toolset)
        length = min(before.length * PAUSE_FACTOR, PAUSE_MAX) if before else PAUSE_FIRST
        self._pauses[toolset] = _Pause(length, now + length)

    def written(self, toolsets: Iterable[str]) -> None:
        for toolset in toolsets:
            self._pauses.pop(toolset, None)


def _never(_: ToolDefinition) -> bool:
    return False


def _no_policy(_: AgentId, __: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """`random_bytes` makes tokens of calls; `is_stopped`: a tool has changed, or may have.

    `current_policy` of an agent's tool is that of the present settings, where they say that it
    holds for open runs as well.
    """

    random_bytes: Callable[[int], bytes]
    reply_topic: str = TOOL_RESULTS.full_name()
    unavailable: UnavailableToolsets = field(default_factory=UnavailableToolsets)
    is_stopped: Callable[[ToolDefinition], bool] = _never
    current_policy: Callable[[AgentId, str], ToolPolicy | None] = _no_policy
