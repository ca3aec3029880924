"""T1: the records of a request, and of all that its run asks, are spans of one trace."""

import hashlib
import re
from collections.abc import Iterator, Mapping

from tests.chaos.audit.history import CALL_TOPICS, Event, History, Violation
from tests.chaos.audit.run_records import RunRecords

HEADER = "traceparent"
WRITTEN_OFF = ("unknown", "released")  # by a worker that does not know the request yet
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")

Expected = tuple[str, Event, str | None]  # whose it is, and the name of its span; None: of any


def check(history: History) -> Iterator[Violation]:
    """Every id that a header names is that of a span which the records themselves name."""
    traces: dict[str, str] = dict(_came_with(history))
    for request_id, event, name in _expected(history):
        where, found = event.record.where, _parent(event)
        if found is None:
            if event.body.get("outcome") not in WRITTEN_OFF:
                yield Violation("T1", request_id, f"{where} names no span")
            continue
        trace = traces.setdefault(_root(history, request_id), found[0])
        if found[0] != trace:
            yield Violation("T1", request_id, f"{where} is of another trace")
        elif name is not None and found[1] != span_id(trace, name):
            yield Violation("T1", request_id, f"{where} is not in the span of {name}")


def span_id(trace: str, name: str) -> str:
    """As decision 0017 has it."""
    return hashlib.sha256(f"{trace}/{name}".encode()).hexdigest()[:16]


def _came_with(history: History) -> Iterator[tuple[str, str]]:
    """The traces that publishers named, by request."""
    for request_id, arrivals in history.accepted.items():
        found = _PARENT.fullmatch(arrivals[0].record.header(HEADER) or "")
        if found:
            yield request_id, found[1]


def _root(history: History, request_id: str) -> str:
    while request_id in history.children:
        request_id = history.children[request_id].body["parent"]["request_id"]
    return request_id


def _parent(event: Event) -> tuple[str, str] | None:
    found = _PARENT.fullmatch(event.record.header(HEADER) or "")
    return (found[1], found[2]) if found else None


def _expected(history: History) -> Iterator[Expected]:
    for (request_id, number), attempts in history.attempts.items():
        yield from ((request_id, one, f"{request_id}.attempt.{number}") for one in attempts)
    for request_id, terminals in history.terminals.items():
        yield from ((request_id, one, request_id) for one in terminals)
    for one in history.events["retries"]:
        yield one.body["request_id"], one, None
    runs = RunRecords(history)
    callers = {call_id: asked[0][0].body["request_id"] for call_id, asked in runs.asked.items()}
    yield from _of_calls(history, callers)
    yield from _of_results(runs, callers)
    for one in history.events["runs"]:
        if one.body["kind"] == "run_child":
            parent = one.body["request"]["parent"]
            yield parent["request_id"], one, parent["call_id"]


def _of_calls(history: History, callers: Mapping[str, str]) -> Iterator[Expected]:
    """All that went out to tool servers."""
    for topic, found in history.events.items():
        for one in found if topic.startswith(CALL_TOPICS) else ():
            call_id = one.body.get("call", one.body)["call_id"]  # a call that goes on has it inside
            if call_id in callers:
                yield callers[call_id], one, call_id


def _of_results(runs: RunRecords, callers: Mapping[str, str]) -> Iterator[Expected]:
    """Of servers that were asked: others may say what they like."""
    for call_id, results in runs.results.items():
        tokens = {one.body["reply"]["token"] for one in runs.delivered.get(call_id, ())}
        for one in results:
            if call_id in callers and one.body["token"] in tokens:
                yield callers[call_id], one, call_id
