"""What runs had done when they died, read from their steps; the topic is gone through once."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.toolset_card import Delivery, ToolsetCard
from answerbus.topics import STEPS, TOOLSETS
from services.operators.adapters.picker import Picker, picking
from services.operators.adapters.reader import reading
from services.operators.dead_letters.past_run import PastRun, past_run
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.stored import Place, Stored
from services.operators.records.summary import summarize


@dataclass(slots=True)
class PastRuns:
    """Where the steps of each run stand, and how the tools are called that are announced now."""

    picker: Picker | None = None
    places: defaultdict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    deliveries: dict[str, Delivery] = field(default_factory=dict)

    async def of(self, letter: DeadLetter) -> PastRun:
        """What the run of a dead letter had done. Raises BusUnavailable."""
        places = self.places.get(letter.request_id or "", [])
        records = await self.picker.pick_all(places) if self.picker and places else []
        return past_run(letter, records, self.deliveries)

    def take(self, batch: Sequence[Stored], runs: Collection[str]) -> None:
        """Records of steps and of cards."""
        for stored in batch:
            if stored.topic is TOOLSETS:
                self._take_card(stored)
            elif (name := summarize(stored).request_id) in runs and name is not None:
                self.places[name].append(stored.place)

    def _take_card(self, stored: Stored) -> None:
        toolset = (stored.key or b"").decode(errors="replace")
        for name in [name for name in self.deliveries if name.partition(".")[0] == toolset]:
            del self.deliveries[name]
        card = decode(stored.value, stored.headers) if stored.value is not None else None
        if isinstance(card, ToolsetCard):
            for tool in card.tools:
                self.deliveries[f"{card.toolset}.{tool.name}"] = tool.delivery


@asynccontextmanager
async def past_runs(bus: Bus, letters: Collection[DeadLetterRow]) -> AsyncIterator[PastRuns]:
    """Of these dead letters; where none is of a run, nothing is read. Raises BusUnavailable."""
    runs = frozenset(one.request_id for one in letters if one.agent and one.request_id)
    found = PastRuns()
    present = await bus.present(STEPS, TOOLSETS) if runs else ()
    if not present:
        yield found
        return
    async with reading(bus, present) as reader:
        async for batch in reader.to_end():
            found.take(batch, runs)
    async with picking(bus) as found.picker:
        yield found
