"""G2, G8 and G9: one terminal a request, its closed entry, its schema, its deadline."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.chaos.audit import schemas
from tests.chaos.audit.arrival import Arrival
from tests.chaos.audit.canonical import digest, sorted_digest
from tests.chaos.audit.child import Child
from tests.chaos.audit.history import Event, History, Json, Violation, ended_at

TERMINAL_AFTER_DEADLINE = timedelta(seconds=60)  # while a worker runs
SUFFIX = {"result": "result", "unvalidated_result": "result", "refusal": "refusal"}
TEXT_SCHEMA = {"type": "string"}


def check(history: History) -> Iterator[Violation]:
    """All that is promised of terminals."""
    for request_id, terminals in history.terminals.items():
        yield from _unique(request_id, terminals)
        request = history.requests.get(request_id)
        if request is not None:
            yield from _closed(history, request_id, terminals[0])
            yield from _in_time(history, request_id, terminals[0])
            for terminal in terminals:
                yield from _valid(request, terminal)
    yield from _closed_places(history)
    yield from _closed_for_nothing(history)
    yield from _still_listed(history)


def _unique(request_id: str, terminals: list[Event]) -> Iterator[Violation]:
    if len(terminals) > 1:
        what = ", ".join(_where(terminal) for terminal in terminals)
        yield Violation("G2", request_id, f"{len(terminals)} terminals: {what}")
    for terminal in terminals:
        body = terminal.body
        reported = body.get("event_id") or body["dead_letter_id"]
        expected = f"{request_id}.{SUFFIX.get(body['kind'], 'dead-letter')}"
        if reported != expected:
            yield Violation("G2", request_id, f"its terminal's id is {reported}, not {expected}")


def _closed(history: History, request_id: str, terminal: Event) -> Iterator[Violation]:
    entry = history.closed.get(request_id)
    if entry is None:
        yield Violation("G2", request_id, f"{_where(terminal)} has no closed entry")
        return
    digest_ = history.asked[request_id].body_digest or entry.body["body_digest"]
    texts = entry.body["outcome"], entry.body["body_digest"]
    expected = terminal.body["kind"], digest_
    if texts != expected:
        text = f"the ledger closed it as {texts}, and it ended as {expected}"
        yield Violation("G2", request_id, text)


def _closed_places(history: History) -> Iterator[Violation]:
    """The record itself is closed where no request id is: else a redelivery repeats its event."""
    for arrival in history.arrivals:
        expected = None
        if arrival.dead_letter_id in history.place_dead_letters:
            expected = "dead_letter"
        elif not arrival.is_copy and arrival.place in history.copies:
            expected = "forwarded"
        entry = history.closed.get(arrival.place_id)
        reported = entry.body["outcome"] if entry else None
        if reported != expected:
            text = f"the ledger closed this record as {reported}, and it became {expected}"
            yield Violation("G2", arrival.place_id, text)


def _closed_for_nothing(history: History) -> Iterator[Violation]:
    places = {arrival.place_id for arrival in history.arrivals}
    for closes in history.closed.keys() - history.terminals.keys() - places:
        yield Violation("G1", closes, "the ledger says that it is closed, and there is no event")


def _in_time(history: History, request_id: str, terminal: Event) -> Iterator[Violation]:
    asked = history.asked[request_id]
    deadline, at = _deadline(history, asked), ended_at(terminal)
    # A lane that was shut by a fault could do nothing, and one that is full does not read on.
    opened = history.opened_before(terminal.record.partition, at) or asked.asked_at
    awaited = max(deadline, opened)
    if isinstance(asked, Arrival):
        read = history.read_at(asked.place, opened) or at
        awaited = max(awaited, read, history.awaited_from.get(asked.place, deadline))
    if at > awaited + TERMINAL_AFTER_DEADLINE:
        yield Violation("G9", request_id, f"its terminal came at {at}, its deadline was {deadline}")
    cause = terminal.body.get("cause", {}).get("kind")
    if cause == "deadline_passed" and at < deadline:
        text = f"deadline_passed was said at {at}, its deadline is {deadline}"
        yield Violation("G9", request_id, text)


def _deadline(history: History, asked: Arrival | Child) -> datetime:
    """What a tool asks has at most what is left to its run, in whole seconds."""
    parent = asked.body.get("parent")
    above = history.asked.get(parent["request_id"]) if parent else None
    # A run is asked before its tools ask: a request that names itself, or a later one, has none.
    if isinstance(asked, Child) or above is None or above.asked_at >= asked.asked_at:
        return asked.deadline
    left_s = (_deadline(history, above) - asked.asked_at) // timedelta(seconds=1)
    return min(asked.deadline, asked.asked_at + timedelta(seconds=max(left_s, 1)))


def _valid(request: Json, terminal: Event) -> Iterator[Violation]:
    body = terminal.body

    def wrong(text: str) -> Violation:
        return Violation("G8", body["request_id"], f"{_where(terminal)}: {text}")

    if body["kind"] == "dead_letter":
        return
    expected = _schema_id(request["answer_schema"])
    if body["schema"] != expected:
        yield wrong(f"it names the schema {body['schema']}, asked for was {expected}")
    policy = request.get("policy", {}).get("at_last")
    if body["kind"] == "unvalidated_result" and policy != "unvalidated":
        yield wrong("nobody asked for unvalidated results")
    answered = body["kind"] == "result" or body.get("answer") is not None
    faults = _answer_faults(request["answer_schema"], body["answer"]) if answered else []
    if faults:
        yield wrong("the answer fails the schema: " + "; ".join(faults))


def _schema_id(ref: Json) -> Json:
    """How an answer must name the schema that a request referred to."""
    match ref["kind"]:
        case "contract":
            digest_ = sorted_digest(schemas.contract(ref["name"], ref["version"]))
            return {**ref, "digest": digest_}
        case "inline":
            wrapped = ref.get("wrapped", True)
            named = {"kind": "inline", "name": ref["name"], "wrapped": wrapped}
            return {**named, "digest": digest(ref["json_schema"])}
        case _:
            return {"kind": "text", "digest": digest(TEXT_SCHEMA)}


def _answer_faults(ref: Json, answer: object) -> list[str]:
    match ref["kind"]:
        case "contract":
            return schemas.contract_faults(ref["name"], ref["version"], answer)
        case "inline" if ref.get("wrapped", True):
            return _wrapped_faults(ref["json_schema"], answer)
        case "inline":
            return schemas.inline_faults(ref["json_schema"], answer)
        case _:
            return schemas.inline_faults(TEXT_SCHEMA, answer)


def _wrapped_faults(schema: object, answer: object) -> list[str]:
    names = {"output", "success", "notes", "failure_reason"}
    if not isinstance(answer, dict) or answer.keys() != names:
        return [f"a wrapped answer has exactly the members {sorted(names)}"]
    if answer["success"] is True:
        reason = [] if answer["failure_reason"] is None else ["success with a failure_reason"]
        return reason + schemas.inline_faults(schema, answer["output"])
    honest = answer["success"] is False and answer["output"] is None and answer["failure_reason"]
    return [] if honest else ["neither a success nor an honest failure"]


def _still_listed(history: History) -> Iterator[Violation]:
    listed = {}
    for record in history.records:
        if record.topic == "retries" and record.key is not None:
            listed[record.key.decode(errors="replace")] = record
    for key, record in listed.items():
        request_id = key.partition("@")[0]
        if record.value is not None and request_id in history.terminals:
            text = f"it has its terminal, and {record.where} lists it"
            yield Violation("G2", request_id, text)


def _where(event: Event) -> str:
    return f"{event.body['kind']} at {event.record.where}"
