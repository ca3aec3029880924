"""A workflow's timeline, put together from the records that the index names."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from aiohttp import web

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable
from answerbus.topics import (
    ATTEMPTS,
    LEDGER,
    OUTCOMES,
    REQUESTS,
    STEPS,
    Topic,
)
from answerbus.wire import clip
from services.console.access.tokens import Role
from services.console.context import CONTEXT, ConsoleContext
from services.console.form import is_streamed, known_names
from services.console.guard import session_of
from services.console.pages.render import long_page, page
from services.console.state.workflow_index import WorkflowIndex, dead_letter_key, retry_key
from services.console.views.answer_pair import answer_pair, answers_of
from services.console.views.run_tree import trees
from services.console.views.timeline_rows import TimelineRow, timeline_rows
from services.console.views.waterfall import waterfall
from services.operators.records.decoded import DecodedRecord, decoded
from services.operators.records.stored import RecordPosition, RetryEnded, Stored
from services.operators.timeline.entry import TimelineEntry
from services.operators.timeline.timeline import timeline
from services.text.escaping import plain_json

RECORDS_MAX = 200  # picked for one page, the newest; and of the ledger LEDGER_MAX beside them
LEDGER_MAX = 20
STEPS_MAX = 600  # steps of runs, and the ends of their calls
# The newest of each topic, for the trees of runs: a tree of 500 requests has some 2,500 records.
OF_TREES_MAX: Mapping[Topic, int] = MappingProxyType(
    {STEPS: 2_000, **dict.fromkeys((REQUESTS, ATTEMPTS, *OUTCOMES), 1_000)}
)
ENTRIES_SHOWN = 16  # on a page as it opens; those before them are folded away
BYTES_MAX = 8 * 1024 * 1024  # of all these, the newest; decoded they take up to 16 times as much
BODY_BYTES_MAX = 16 * 1024
# What is said of these holds nothing of contexts and answers.
_FOR_VIEWERS = frozenset(
    {
        *("request", "forwarded", "duplicate", "conflict", "in_flight", "retry_ended", "closed"),
        *("result", "unvalidated_result", "replayed", "dismissed"),
    }
)


@dataclass(frozen=True, slots=True)
class WorkflowEntry:
    """A line of the page; `text` and `body` are None for those who may not see them."""

    at_ms: int
    after_ms: int | None
    kind: str
    request_id: str | None
    place: str
    text: str | None
    message: str | None
    body: str | None


@dataclass(frozen=True, slots=True)
class WorkflowQuery:
    """The parameters of the address, who asked, and when."""

    workflow_id: str
    request_id: str | None
    pair: tuple[str | None, str | None]
    operator: bool
    now: datetime


async def workflow(request: web.Request) -> web.Response:
    """By id, and by `request` if that is given; `left` and `right` name answers to compare.

    What a dead letter's or a request's id leads to is looked up in its records.
    """
    known_names(request, "id", "request", "left", "right")
    if is_streamed(request):
        return page(request, "frame.html")  # nothing else of it is live
    session, query = session_of(request), request.query
    context = request.app[CONTEXT]
    asked = WorkflowQuery(
        query.get("id", "").strip(),
        query.get("request"),
        (query.get("left"), query.get("right")),
        session.role is Role.OPERATOR,
        datetime.fromtimestamp(context.now(), UTC),
    )
    async with context.long_pages.turn_of(session.holder):
        values = await _values(context, asked)
        status = 200 if values["entries"] else 404
        return await long_page(request, "workflow.html", status, **values)


async def _values(context: ConsoleContext, asked: WorkflowQuery) -> Mapping[str, Any]:
    """The values that the page shows, from records picked by the index."""
    index, workflow_id = context.feed.state.workflows, asked.workflow_id
    own = index.find(workflow_id)
    newest, of_trees = _newest(own), _of_trees(own)
    picked = await context.picker.pick_all(dict.fromkeys((*newest, *of_trees)), BYTES_MAX)
    places = set(newest)
    stored = [record for record in picked if record.place in places]
    found = await asyncio.to_thread(timeline, workflow_id, stored)
    more = await context.picker.pick_all(_related(index, found), BYTES_MAX)
    if more:
        found = await asyncio.to_thread(timeline, workflow_id, [*stored, *more])
    return {
        "left_out": len(own) - len(stored),
        "left_out_of_trees": _left_out(own, picked) if of_trees else 0,
        **await asyncio.to_thread(_drawn, asked, found, picked),
    }


def _drawn(
    asked: WorkflowQuery, found: Sequence[TimelineEntry], picked: Iterable[Stored]
) -> Mapping[str, Any]:
    """The timeline in words and pictures, of one request or of all, and the trees of all."""
    chosen, operator = asked.request_id, asked.operator
    shown = [entry for entry in found if chosen is None or entry.request_id == chosen]
    answers = answers_of(entry.seen.event for entry in found) if operator else None
    return {
        "workflow": asked.workflow_id,
        "chosen": chosen,
        "requests": list(dict.fromkeys(entry.request_id for entry in found if entry.request_id)),
        "entries": [entry(row, operator=operator) for row in timeline_rows(shown)],
        "entries_shown": ENTRIES_SHOWN,
        "picture": waterfall(shown, asked.now),
        "trees": trees(_seen(asked.workflow_id, found, picked), asked.now, operator=operator),
        "pair": None if answers is None else answer_pair(answers, *asked.pair),
        "pair_open": asked.pair[0] is not None,
    }


def entry(row: TimelineRow, *, operator: bool) -> WorkflowEntry:
    """The visible part of an event."""
    found = row.entry
    event = found.seen.event
    body = None
    if not isinstance(event, Undecodable | RetryEnded):
        body = plain_json(event.model_dump_json(indent=2))
    shown = operator or found.kind in _FOR_VIEWERS
    place = found.place
    return WorkflowEntry(
        int(found.at.timestamp() * 1000),
        row.after_ms,
        found.kind,
        found.request_id,
        f"{place.topic.name} {place.partition}@{place.offset}",
        row.text if shown else None,
        found.said if operator else None,
        clip(body, BODY_BYTES_MAX) if operator and body else None,
    )


def _newest(places: Iterable[RecordPosition]) -> list[RecordPosition]:
    beside = {LEDGER: LEDGER_MAX, STEPS: STEPS_MAX}
    every = list(places)
    found = [place for place in every if place.topic not in beside][-RECORDS_MAX:]
    for topic, count in beside.items():
        found += [place for place in every if place.topic is topic][-count:]
    return found


def _of_trees(own: Sequence[RecordPosition]) -> list[RecordPosition]:
    """What trees are made of, where there are any: more than the timeline shows."""
    if not any(place.topic is STEPS for place in own):
        return []
    by_topic = {
        topic: [place for place in own if place.topic is topic][-count:]
        for topic, count in OF_TREES_MAX.items()
    }
    return [place for places in by_topic.values() for place in places]


def _left_out(own: Iterable[RecordPosition], picked: Iterable[Stored]) -> int:
    """How many records the trees lack, which say less of their costs then."""
    count = sum(place.topic in OF_TREES_MAX for place in own)
    return count - sum(record.topic in OF_TREES_MAX for record in picked)


def _seen(
    workflow_id: str, entries: Iterable[TimelineEntry], picked: Iterable[Stored]
) -> Iterator[DecodedRecord]:
    """Each record of the workflow; those of the timeline are decoded already."""
    places = set[RecordPosition]()
    for entry in entries:
        places.add(entry.place)
        yield entry.seen
    for stored in picked:
        if stored.place not in places and (record := decoded(stored)).workflow_id == workflow_id:
            yield record


def _related(index: WorkflowIndex, entries: Iterable[TimelineEntry]) -> list[RecordPosition]:
    """The operators' actions on the workflow's dead letters, and the ends of retries."""
    requests = {entry.request_id for entry in entries if entry.request_id}
    events = [entry.seen.event for entry in entries]
    dead_letters = {event.dead_letter_id for event in events if isinstance(event, DeadLetter)}
    keys = [*map(retry_key, sorted(requests)), *map(dead_letter_key, sorted(dead_letters))]
    return [place for key in keys for place in index.find(key)][-RECORDS_MAX:]
