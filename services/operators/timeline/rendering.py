"""An entry as a line for people and as JSON data for programs; pure."""

from collections.abc import Mapping
from datetime import UTC, datetime

from rich.text import Text

from answerbus.wire import format_timestamp
from services.operators.records.event_data import event_data
from services.operators.timeline.entry import STYLES, TimelineEntry
from services.text.escaping import plain_line

_KIND_WIDTH = max(map(len, STYLES))
_SINCE = 12  # characters


def as_data(entry: TimelineEntry, *, show_content: bool) -> Mapping[str, object]:
    place = entry.place
    data: dict[str, object] = {
        "at": format_timestamp(entry.at),
        "kind": entry.kind,
        "request_id": entry.request_id,
        "text": entry.text,
        "topic": place.topic.name,
        "partition": place.partition,
        "offset": place.offset,
    }
    if show_content:
        data["event"] = event_data(entry.seen)
    return data


def line_of(entry: TimelineEntry, begin: datetime | None = None) -> Text:
    """An entry for people, with the time since the beginning if that is given."""
    place = entry.place
    since = "" if begin is None else f"+{(entry.at - begin).total_seconds():.3f} s".rjust(_SINCE)
    return Text.assemble(
        (f"{entry.at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f"Z{since} ", "dim"),
        (entry.kind.ljust(_KIND_WIDTH), STYLES.get(entry.kind, "")),
        (f" {plain_line(entry.request_id or '-')} ", "bold"),
        entry.text.replace("\n", " "),
        (f" [{place.topic.name}-{place.partition}@{place.offset}]", "dim"),
    )
