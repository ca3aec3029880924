"""A history to be audited: what is in the topics, and the calls that the provider itself noted."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from tests.chaos.audit.arrival import Arrival, Place, arrival_of
from tests.chaos.audit.canonical import NotStrictError, moment, read_json
from tests.chaos.audit.child import Child, child_of_dead_letter, child_of_record
from tests.chaos.audit.record import Record

TOPICS = ("requests", "results", "refusals", "retries", "dead-letters", "attempts", "ledger")
# Topics of agents, where a bus has any; those of calls are `tools.<toolset>`.
CARD_TOPIC = "toolsets.deeds"
RUN_TOPICS = ("tool-results", CARD_TOPIC, "approvals", "controls", "runs", "steps")
CALL_TOPICS = "tools."

Json = dict[str, Any]
Spend = tuple[str, int]  # request id, attempt number

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that does not hold (G1 to G11, A1 to A16, T1), what about, and how one sees it."""

    promise: str
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise} {self.about}: {self.text}"


@dataclass(frozen=True, slots=True)
class Event:
    """A record of one of our topics with its body."""

    record: Record
    body: Json


@dataclass(frozen=True, slots=True)
class Call:
    """A provider call. Without an end its process died; an end without a reply was cancelled."""

    request_id: str
    attempt: int
    pid: int
    started: datetime
    ended: datetime | None
    reply: str | None


@dataclass(frozen=True, slots=True)
class Deed:
    """A tool that began, in its own words; without an end its process died, or it was cancelled."""

    call_id: str
    delivery: int
    tool: str
    pid: int
    started: datetime
    ended: datetime | None


@dataclass(frozen=True)
class History:
    """`records` are all that read_committed readers see, of each partition in order of offsets.

    `committed` is the group's offset by partition, where known. `is_whole` says that nothing was
    compacted or deleted, so that what is not there never was. `awaited_from` says, by the place of
    a record, since when a worker had it and was left in peace, where that is known. `deeds` are
    what tools noted; None: they noted nothing, or there were none.
    """

    prefix: str
    partitions: int
    records: Sequence[Record]
    calls: Sequence[Call]
    committed: Mapping[int, int] | None = None
    is_whole: bool = True
    awaited_from: Mapping[Place, datetime] = field(default_factory=dict)
    deeds: Sequence[Deed] | None = None

    @cached_property
    def openings(self) -> Mapping[int, list[datetime]]:
        """When lanes were opened, by partition: each time with another count, or another worker."""
        found: dict[int, list[datetime]] = defaultdict(list)
        before: dict[int, tuple[str, int]] = {}
        for event in self.events["ledger"]:
            if event.body["kind"] != "lane":
                continue
            place, body = event.record.partition, event.body
            worker, count = body["worker"], body["openings_without_progress"]
            known, least = before.get(place, ("", 0))
            if worker != known or count > least:
                found[place].append(moment(body["at"]))
            before[place] = worker, count
        return found

    def opened_before(self, partition: int, at: datetime) -> datetime | None:
        """When the lane was opened that was there at that time."""
        return max((opened for opened in self.openings[partition] if opened <= at), default=None)

    def read_at(self, place: Place, since: datetime) -> datetime | None:
        """When the record had been read by a lane that was opened then, at the latest.

        It is noted nowhere. But a partition is read in order, so all that is done about a record
        tells that those before it were read.
        """
        times = (at for offset, at in self._deeds[place[0]] if offset >= place[1] and at >= since)
        return min(times, default=None)

    @cached_property
    def _deeds(self) -> Mapping[int, list[tuple[int, datetime]]]:
        """By partition: the offset of a record about which something was done, and when."""
        found: dict[int, list[tuple[int, datetime]]] = defaultdict(list)
        for request_id, arrivals in self.accepted.items():
            partition, offset = arrivals[0].place
            ends = [ended_at(event) for event in self.terminals.get(request_id, [])]
            starts = self._starts.get(request_id, [])
            found[partition] += [(offset, at) for at in (*starts, *ends)]
        return found

    @cached_property
    def _starts(self) -> Mapping[str, list[datetime]]:
        return _grouped((call.request_id, call.started) for call in self.calls)

    @cached_property
    def arrivals(self) -> list[Arrival]:
        """The records of the requests topic."""
        topic = f"{self.prefix}.requests.v1"
        return [
            arrival_of(record, topic, self.partitions)
            for record in self.records
            if record.topic == "requests"
        ]

    @cached_property
    def events(self) -> Mapping[str, list[Event]]:
        """The readable events of each other topic; `typed.py` complains of the rest."""
        found: dict[str, list[Event]] = {topic: [] for topic in (*TOPICS, *RUN_TOPICS)}
        for record in self.records:
            if record.topic != "requests" and record.value is not None:
                body = body_of(record)
                if body is not None:
                    found.setdefault(record.topic, []).append(Event(record, body))
        return found

    @cached_property
    def terminals(self) -> Mapping[str, list[Event]]:
        """By request id; letters about records that never became requests are not among them."""
        events = [
            *self.events["results"],
            *self.events["refusals"],
            *self._dead_letters(about_place=False),
        ]
        return _grouped((event.body["request_id"], event) for event in events)

    @cached_property
    def place_dead_letters(self) -> Mapping[str, list[Event]]:
        """Letters about records that never became requests, by letter id."""
        dead_letters = self._dead_letters(about_place=True)
        return _grouped((event.body["dead_letter_id"], event) for event in dead_letters)

    @cached_property
    def copies(self) -> Mapping[Place, list[Arrival]]:
        """Forwarded records, by their first position."""
        return _grouped((a.first_place, a) for a in self.arrivals if a.is_copy)

    @cached_property
    def accepted(self) -> Mapping[str, list[Arrival]]:
        """By request id, the records that the owner of their workflow took for requests."""
        return _grouped(
            (arrival.request_id, arrival)
            for arrival in self.arrivals
            if arrival.request_id is not None
            and arrival.owner == arrival.place[0]
            and arrival.dead_letter_id not in self.place_dead_letters
        )

    @cached_property
    def children(self) -> Mapping[str, Child]:
        """By request id, what runs have asked: no record of the requests topic says it.

        One that ends in the transaction in which it is asked has its letter alone.
        """
        records = (e for e in self.events["runs"] if e.body["kind"] == "run_child")
        found = [child_of_record(event.body) for event in records]
        dead_letters = (event.body for event in self._dead_letters(about_place=False))
        found += [child_of_dead_letter(body) for body in dead_letters if body.get("parent")]
        return {
            child.body["request_id"]: child
            for child in reversed(found)
            if child.body["request_id"] not in self.accepted
        }

    @cached_property
    def asked(self) -> Mapping[str, Arrival | Child]:
        """By request id, what asks for it first: a record, or a run."""
        return {**{id_: found[0] for id_, found in self.accepted.items()}, **self.children}

    @cached_property
    def requests(self) -> Mapping[str, Json]:
        """The body that counts for each request id: that of what asks for it first."""
        return {id_: asked.body for id_, asked in self.asked.items()}

    @cached_property
    def attempts(self) -> Mapping[Spend, list[Event]]:
        """The Attempts of each spend."""
        events = self.events["attempts"]
        return _grouped(((e.body["request_id"], e.body["attempt"]), e) for e in events)

    @cached_property
    def calls_of(self) -> Mapping[Spend, list[Call]]:
        """The calls of each spend."""
        return _grouped(((call.request_id, call.attempt), call) for call in self.calls)

    @cached_property
    def accounts(self) -> Mapping[str, Event]:
        """The last word of the ledger on each account."""
        kept = (e for e in self.events["ledger"] if e.body["kind"] == "account")
        return {event.body["account_id"]: event for event in kept}

    @cached_property
    def closed(self) -> Mapping[str, Event]:
        """The ledger's closed entries, by what they close."""
        kept = (e for e in self.events["ledger"] if e.body["kind"] == "closed")
        return {event.body["closes"]: event for event in kept}

    @cached_property
    def spends(self) -> Mapping[Spend, Event]:
        """The record of the ledger that first shows each spend, which is that of its commit."""
        first: dict[Spend, Event] = {}
        for event in self.events["ledger"]:
            if event.body["kind"] == "account":
                for entry in event.body["in_flight"]:
                    first.setdefault((entry["request_id"], entry["attempt"]), event)
        return first

    @cached_property
    def unsettled(self) -> frozenset[Spend]:
        """Spends that the ledger's last word still has in flight."""
        return frozenset(
            (entry["request_id"], entry["attempt"])
            for event in self.accounts.values()
            for entry in event.body["in_flight"]
        )

    def _dead_letters(self, *, about_place: bool) -> list[Event]:
        dead_letters = [e for e in self.events["dead-letters"] if e.body["kind"] == "dead_letter"]
        return [e for e in dead_letters if (e.body["request"] is None) == about_place]


def body_of(record: Record) -> Json | None:
    """The JSON object in a record of ours; None if there is none."""
    try:
        body = read_json(record.value)
    except NotStrictError:
        return None
    return body if isinstance(body, dict) and "kind" in body else None


def ended_at(terminal: Event) -> datetime:
    """When the worker decided."""
    return moment(terminal.body.get("finished_at") or terminal.body["at"])


def account_of(request: Json) -> str:
    """The account that a request is charged to, not the one that it names."""
    workflow_id, replay = str(request["workflow_id"]), request.get("replay")
    if replay:
        digest = hashlib.sha256(replay["dead_letter_id"].encode()).hexdigest()
        return f"{workflow_id}~{digest[:12]}"
    could_be_a_replays = re.search(r"~([0-9a-f]{12})?\Z", workflow_id)
    return f"{workflow_id}~" if could_be_a_replays else workflow_id


def is_ordered(request: Json) -> bool:
    """Whether a request waits for those before it."""
    return bool(request.get("policy", {}).get("ordering", "workflow") == "workflow")


def _grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    groups: dict[_Key, list[_Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
