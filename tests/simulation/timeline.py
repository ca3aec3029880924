"""The timeline of a history: what happened, when, and to whom, one line each, for people."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.process import CURRENT

START_S = 1000.0  # loop time at which virtual time begins


@dataclass(frozen=True, slots=True)
class Line:
    """`text` is made when it is read: nearly all histories end well, and are never read."""

    at_s: float
    process: str
    lane: int | None
    text: str | Callable[[], str]

    def __str__(self) -> str:
        text = self.text if isinstance(self.text, str) else self.text()
        lane = "" if self.lane is None else f"lane {self.lane}"
        return f"{self.at_s:9.3f}  {self.process:<9} {lane:<7} {text}"


@dataclass(slots=True)
class Timeline:
    """Lines in the order in which things happened."""

    lines: list[Line] = field(default_factory=list, repr=False)  # name all that was written
    is_over: bool = False  # what is cleaned up afterwards is not part of it

    def tell(self, text: str | Callable[[], str], lane: int | None = None, who: str = "") -> None:
        """Note what happens now; it is the running process that does it, unless `who` says."""
        if self.is_over:
            return
        process = CURRENT.get()
        name = who or (process.name if process else "")
        now = asyncio.get_running_loop().time() - START_S
        self.lines.append(Line(now, name, lane, text))

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))
