"""The committed examples with extreme values: as large, early, late or strange as still decodes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from answerbus.broker_time import bounded_ms
from answerbus.envelope import Undecodable, decode
from answerbus.event import Event
from answerbus.topics import TOPIC_OF_KIND
from services.operators.records.stored import Stored
from tests.unit.operators.stored_examples import EXAMPLES, NOON_MS

LONG_CHARS = 1_024  # of a name; records with longer ones are undecodable to the console
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")
_LINKS = re.compile(r"kind|.*_id|id|closes")  # which records belong together


@dataclass(frozen=True)
class Extreme:
    """What is in place of all numbers, times or texts; Kafka's time of the records."""

    number: int | None = None
    time: str | None = None
    text: str | None = None
    at_ms: int = NOON_MS


EXTREMES: Mapping[str, Extreme] = {
    "zero": Extreme(number=0),
    "ten to the 18": Extreme(number=10**18),
    "ten to the 400": Extreme(number=10**400),
    "of 4,300 digits": Extreme(number=10**4299),  # the most that Python reads
    "the first year": Extreme(time="0001-01-01T00:00:00Z"),
    "the last year": Extreme(time="9999-12-31T23:59:59.999999Z"),
    "a long call until the last year": Extreme(number=10**400, time="9999-12-31T23:59:59Z"),
    "the first time of Kafka": Extreme(at_ms=bounded_ms(-(2**62))),
    "the last time of Kafka": Extreme(at_ms=bounded_ms(2**62)),
    "no text": Extreme(text=""),
    "a long text": Extreme(text="x" * LONG_CHARS),
    "from right to left": Extreme(text="\u202e\u2067שלום\u2069"),
    "control characters": Extreme(text="\x00\x1b[2J\r\n\x9b31m\x85"),
}


@cache
def extreme_records(extreme: Extreme) -> Sequence[Stored]:
    """All examples, as far as they can hold that and stay events."""
    records = []
    for offset, path in enumerate(sorted(EXAMPLES.glob("*/*.json"))):
        body = json.loads(path.read_text())
        places = tuple(_places(body, extreme))
        value = json.dumps(_changed(body, places)).encode()
        topic = TOPIC_OF_KIND[body["kind"]]
        records.append(Stored(topic, 0, offset, extreme.at_ms, b"key", value, ()))
    return tuple(records)


def events_of(records: Sequence[Stored]) -> list[Event]:
    """Decoded, those that are events."""
    found = (decode(record.value, record.headers) for record in records)
    return [event for event in found if not isinstance(event, Undecodable)]


Place = tuple[tuple[str | int, ...], object]


def _places(value: Any, extreme: Extreme, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """What could be put where."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not (isinstance(part, str) and _LINKS.fullmatch(name)):
                yield from _places(part, extreme, (*path, name))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _places(part, extreme, (*path, number))
    elif isinstance(value, str):
        put = extreme.time if _TIME.match(value) else extreme.text
        if put is not None:
            yield path, put
    elif isinstance(value, bool) or value is None or extreme.number is None:
        return
    else:
        yield path, extreme.number


def _changed(body: Any, places: Sequence[Place]) -> Any:
    """With all of them if it is still an event; else with as many of them as it can hold."""
    changed = deepcopy(body)
    for path, put in places:
        part = changed
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = put
    if not isinstance(decode(json.dumps(changed).encode(), ()), Undecodable):
        return changed
    if len(places) <= 1:
        return body
    half = len(places) // 2
    return _changed(_changed(body, places[:half]), places[half:])
