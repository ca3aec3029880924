"""G1 and G10: every record of the requests topic has one fate, and every fate has its record."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from tests.chaos.audit.arrival import Arrival
from tests.chaos.audit.canonical import moment
from tests.chaos.audit.history import Event, History, Violation


def check(history: History) -> Iterator[Violation]:
    """Conservation, forwards and backwards."""
    yield from _unread(history)
    for arrival in history.arrivals:
        yield from _fate(history, arrival)
    for request_id, arrivals in history.accepted.items():
        asked = {arrival.asked_at for arrival in arrivals}
        yield from _answered(history, request_id, asked, f"it stands at {arrivals[0].place_id}")
    for request_id, child in history.children.items():
        yield from _answered(history, request_id, {child.asked_at}, "a run has asked it")
    yield from _from_nowhere(history)
    yield from _replayed_twice(history)


def _unread(history: History) -> Iterator[Violation]:
    last = {arrival.place[0]: arrival.place[1] for arrival in history.arrivals}
    for partition, offset in last.items():
        if history.committed is not None and history.committed.get(partition, 0) <= offset:
            at = history.committed.get(partition, 0)
            text = f"the group's offset is {at}, and there are records up to {offset}"
            yield Violation("G1", f"requests-{partition}", text)


def _fate(history: History, arrival: Arrival) -> Iterator[Violation]:
    dead_letters = history.place_dead_letters.get(arrival.dead_letter_id, [])
    copies = [] if arrival.is_copy else history.copies.get(arrival.place, [])

    def wrong(text: str) -> Violation:
        return Violation("G1", arrival.place_id, text)

    if len(dead_letters) + len(copies) > 1:
        yield wrong(f"it has {len(dead_letters)} letters and {len(copies)} forwarded copies")
    if copies and arrival.owner == arrival.place[0]:
        yield wrong("its owner forwarded it")
    if dead_letters and not _is_dead_letter_due(history, arrival, dead_letters[0]):
        yield wrong(f"it is a request, and has a letter {dead_letters[0].body['cause']['kind']}")
    if dead_letters or copies:
        return
    if arrival.request_id is None:
        yield wrong("it is no request, and there is no letter about it")
    elif arrival.owner != arrival.place[0]:
        text = f"{arrival.owner} owns its workflow, and it was neither forwarded nor refused"
        yield wrong(f"partition {text}")
    elif arrival.body_digest != history.accepted[arrival.request_id][0].body_digest:
        first = history.accepted[arrival.request_id][0].place_id
        yield wrong(f"its id is that of {first}, its body is another, and there is no letter")


def _is_dead_letter_due(history: History, arrival: Arrival, dead_letter: Event) -> bool:
    match dead_letter.body["cause"]["kind"]:
        case "misrouted_twice":
            return arrival.is_copy and arrival.owner not in {None, arrival.place[0]}
        case "conflicting_id":
            known = history.accepted.get(arrival.request_id or "", [])
            return any(other.body_digest != arrival.body_digest for other in known)
        case _:
            claims = any(name.startswith("ce_") for name, _ in arrival.record.headers)
            return arrival.request_id is None or claims


def _answered(
    history: History, request_id: str, asked: set[datetime], where: str
) -> Iterator[Violation]:
    terminals = history.terminals.get(request_id, [])
    if not terminals:
        yield Violation("G1", request_id, f"no terminal; {where}")
    for terminal in terminals:
        reported = terminal.body.get("requested_at") or terminal.body["origin"]["timestamp"]
        if moment(reported) not in asked:
            text = f"its terminal says that it was asked at {reported}, and no record of it was"
            yield Violation("G1", request_id, text)


def _from_nowhere(history: History) -> Iterator[Violation]:
    for request_id in history.terminals.keys() - history.asked.keys():
        yield Violation("G1", request_id, "a terminal for a request that is not there")
    places = {arrival.dead_letter_id for arrival in history.arrivals}
    for dead_letter_id in history.place_dead_letters.keys() - places:
        yield Violation("G1", dead_letter_id, "a letter about a record that is not there")
    originals = {arrival.place: arrival for arrival in history.arrivals if not arrival.is_copy}
    for place, copies in history.copies.items():
        original = originals.get(place)
        if original is None or original.record.value != copies[0].record.value:
            text = f"forwarded from {place}, where it never stood"
            yield Violation("G1", copies[0].place_id, text)


def _replayed_twice(history: History) -> Iterator[Violation]:
    rounds: dict[tuple[str, int], set[str]] = defaultdict(set)
    for arrival in history.arrivals:
        if replay := arrival.body.get("replay"):
            rounds[replay["dead_letter_id"], replay["round"]].add(str(arrival.request_id))
    for (dead_letter_id, number), ids in rounds.items():
        if len(ids) > 1:
            text = f"round {number} of its replay made the requests {', '.join(sorted(ids))}"
            yield Violation("G10", dead_letter_id, text)
