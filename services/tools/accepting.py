"""Lists what to accept of a toolset, and records that it is accepted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus.client.bus import Bus
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.envelope import decode
from answerbus.limits import REASON_BYTES_MAX
from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from answerbus.topics import ACCEPTED_TOOLS
from answerbus.wire import clip
from services.text.digest import canonical
from services.tools.caller import cards
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.kafka.accepted_tools import write_accepted
from services.worker.core.run.accepted_tools import accepted_tool, is_changed, tools_of

DIGEST_CHARS_MIN = 12
_SCHEME = "sha256:"
_POLL_MS = 200


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool as it was accepted last, if it ever was, and as its card has it now."""

    before: ToolDefinition | None
    after: ToolDefinition

    @property
    def is_to_accept(self) -> bool:
        """Of what no worker has seen yet, a tool whose card asks for approval."""
        if self.before is None:
            return self.after.card.approval != "never"
        return is_changed(self.before, self.after)

    def differences(self) -> Iterator[tuple[str, JsonValue, JsonValue]]:
        """The members that differ, as they were and as they are; of a new tool, all.

        One that is missing is null, such as `repeatable` of a tool that is not.
        """
        was, fields = (_fields(self.before) if self.before else {}), _fields(self.after)
        for name in {**fields, **was}:  # to Python 1 equals true; JSON tells them apart
            pair = was.get(name), fields.get(name)
            if self.before is None or canonical(pair[0]) != canonical(pair[1]):
                yield name, *pair


@dataclass(frozen=True, slots=True)
class ToAccept:
    """The changes in a card of this digest."""

    digest: str
    changes: Sequence[ToolChange]


async def look(bus: Bus, toolset: str) -> ToAccept | None:
    """The changes to accept now; None without a card. Raises BusUnavailable."""
    await bus.counts(ACCEPTED_TOOLS)
    for card in await cards(bus):
        if isinstance(card, ToolsetCard) and card.toolset == toolset:
            known = await _accepted(bus)
            changes = (ToolChange(known.get(tool.name), tool) for tool in tools_of(card))
            return ToAccept(card.computed_digest(), [one for one in changes if one.is_to_accept])
    return None


async def write(bus: Bus, changes: Sequence[ToolChange], who: str) -> None:
    """Workers take the tools from then on. Raises BusUnavailable."""
    at = SystemClock().now()
    records = [
        ToolAccepted(
            toolset=change.after.toolset,
            card=change.after.card,
            written_by=change.after.written_by,
            by=clip(bus.principal, REASON_BYTES_MAX),
            said_by=clip(who, REASON_BYTES_MAX),
            at=at,
        )
        for change in changes
    ]
    with bus.explained():
        await write_accepted(bus, records)


def is_named(digest: str, typed: str) -> bool:
    """Whether what was typed is the beginning of the digest, and long enough."""
    beginning = typed.removeprefix(_SCHEME)
    is_long = len(beginning) >= DIGEST_CHARS_MIN
    return is_long and digest.removeprefix(_SCHEME).startswith(beginning)


def _fields(tool: ToolDefinition) -> Mapping[str, JsonValue]:
    card = tool.card.model_dump(mode="json", exclude={"name", "digest"})
    return {**card, "written_by": tool.written_by}


async def _accepted(bus: Bus) -> Mapping[str, ToolDefinition]:
    """Each tool as it was accepted last, by its name."""
    place, found = bus.place(ACCEPTED_TOOLS, 0), dict[str, ToolDefinition]()
    consumer = bus.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=_POLL_MS)
    async with bus.running(consumer):
        consumer.assign([place])
        with bus.explained():
            end = (await consumer.end_offsets([place]))[place]
            await consumer.seek_to_beginning(place)
            while await consumer.position(place) < end:
                batch = await consumer.getmany(place, timeout_ms=_POLL_MS)
                async for record in in_turns(batch.get(place, ())):
                    if isinstance(record, Unreadable):
                        continue
                    name = (record.key or b"").decode(errors="replace")
                    found.pop(name, None)
                    event = None if record.value is None else decode(record.value)
                    if isinstance(event, ToolAccepted) and event.name == name:
                        found[name] = accepted_tool(event)
    return found
