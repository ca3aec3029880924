"""A moment as a line for people and as JSON data for programs; pure."""

from collections.abc import Mapping

from rich.text import Text

from answerbus.wire import format_timestamp
from services.escaping import plain_line
from services.reading.event_data import event_data
from services.story.moment import STYLES, Moment

_KIND_WIDTH = max(map(len, STYLES))


def as_data(one: Moment, *, show_content: bool) -> Mapping[str, object]:
    """An entry for programs."""
    place = one.place
    data: dict[str, object] = {
        "at": format_timestamp(one.at),
        "kind": one.kind,
        "request_id": one.request_id,
        "text": one.text,
        "topic": place.topic.name,
        "partition": place.partition,
        "offset": place.offset,
    }
    if show_content:
        data["event"] = event_data(one.seen)
    return data


def line_of(one: Moment) -> Text:
    """An entry for people."""
    place = one.place
    return Text.assemble(
        (f"{one.at.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3] + " ", "dim"),
        (one.kind.ljust(_KIND_WIDTH), STYLES.get(one.kind, "")),
        (f" {plain_line(one.request_id or '-')} ", "bold"),
        one.text.replace("\n", " "),
        (f" [{place.topic.name}-{place.partition}@{place.offset}]", "dim"),
    )
