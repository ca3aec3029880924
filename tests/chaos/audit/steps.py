"""A1, A2, A7, A8, A9 and A12: what runs did, step by step, and how they ended."""

from collections.abc import Iterator
from datetime import timedelta

from tests.chaos.audit.canonical import digest, moment
from tests.chaos.audit.history import Event, History, Violation
from tests.chaos.audit.run_records import RunRecords

CANARY = b"CANARY"  # in each thought of the scripted model, and nowhere else
THOUGHTS_STAND_IN = "attempts"
LEAKED = "leaked"  # the code by which the provider rejects a prompt that has a thought
CLOCK_ERROR = timedelta(milliseconds=10)  # a worker knows the broker's time to a few milliseconds
# Between a worker's look at what is cancelled and the provider's note of its call lies a moment.
NOTE_DELAY = timedelta(milliseconds=250)


def check(history: History) -> Iterator[Violation]:
    """All that is promised of runs as a whole."""
    runs = RunRecords(history)
    if runs.is_empty:
        return
    for request_id in runs.steps.keys() - runs.requests.keys():
        yield Violation("A1", request_id, "steps of a request without an agent")
    for request_id in runs.requests:
        yield from _summary(runs, request_id)
        yield from _steps(runs, request_id)
        yield from _in_turn(runs, request_id)
        yield from _chain(request_id, runs.chains.get(request_id, []))
    yield from _left_behind(runs)
    yield from _cancelled(runs)
    yield from _thoughts(history)


def _summary(runs: RunRecords, request_id: str) -> Iterator[Violation]:
    """The one terminal says how much the run did."""
    steps = runs.steps.get(request_id, [])
    for terminal in runs.history.terminals.get(request_id, []):
        reported = terminal.body.get("run") or {"steps": 0, "tool_calls": 0}
        did = {"steps": len(steps), "tool_calls": sum(len(s.body["calls"]) for s in steps)}
        fields = {name: reported[name] for name in did}
        if fields != did:
            yield Violation("A1", request_id, f"its terminal says {fields}, and it did {did}")


def _steps(runs: RunRecords, request_id: str) -> Iterator[Violation]:
    """Numbered without gaps, each of an attempt of its own that says so, and not too many."""
    steps = [step.body for step in runs.steps.get(request_id, [])]
    numbers = [step["n"] for step in steps]
    if numbers != list(range(1, len(steps) + 1)):
        yield Violation("A2", request_id, f"its steps are numbered {numbers}")
    # The step that asks for proposals has no attempt, since no model decides it.
    attempts = [step["attempt"] for step in steps if not step.get("composed")]
    settled = runs.stepped.get(request_id, [])
    if attempts != settled:
        text = f"its steps are of the attempts {attempts}; those that became a step are {settled}"
        yield Violation("A2", request_id, text)
    definition = runs.definitions.get(request_id)
    if definition and len(steps) >= definition["steps_max"]:  # the last one is its end
        text = f"{len(steps)} steps and its end, its agent may take {definition['steps_max']}"
        yield Violation("A7", request_id, text)


def _in_turn(runs: RunRecords, request_id: str) -> Iterator[Violation]:
    """No model is called for what comes after a step while a call of that step is open."""
    for step in runs.steps.get(request_id, []):
        ends = [
            end.record.timestamp
            for call in step.body["calls"]
            for end in runs.ended.get(call["call_id"], [])
        ]
        called = runs.history.calls_of.get((request_id, step.body["attempt"] + 1), [])
        for call in called:
            if ends and call.started < max(ends) - CLOCK_ERROR:
                text = f"called for attempt {call.attempt} while calls of the step before were open"
                yield Violation("A2", request_id, text)


def _chain(request_id: str, chain: list[Event]) -> Iterator[Violation]:
    previous = None
    for event in chain:
        body, where = event.body, event.record.where
        if body["previous"] != previous:
            yield Violation("A12", request_id, f"{where} does not follow on what the run wrote")
        if body["hash"] != digest({name: body[name] for name in body.keys() - {"hash"}}):
            yield Violation("A12", request_id, f"{where} has not the hash of what it says")
        previous = body["hash"]


def _left_behind(runs: RunRecords) -> Iterator[Violation]:
    """Private records of a run are ended with it; cancellations are remembered."""
    history, last = runs.history, {}
    for record in history.records:
        if record.topic == "runs" and record.key is not None:
            last[record.partition, record.key.decode(errors="replace")] = record
    for (_, key), record in last.items():
        request_id = key.partition("@")[0].partition("/")[0]
        is_open = request_id in history.asked and request_id not in history.terminals
        if record.value is not None and "/cancel/" not in key and not is_open:
            text = f"it is not open, and {record.where} keeps {key}"
            yield Violation("A8", request_id, text)


def _cancelled(runs: RunRecords) -> Iterator[Violation]:
    """From the commit of a cancellation on there is no call of a model or tool, nor for a child."""
    for control in runs.controls:
        if control.body["effect"] != "cancelled":
            continue
        at, ended = control.record.timestamp, set(control.body["requests"])
        for call in runs.history.calls:
            family = {call.request_id, *runs.above(call.request_id)}
            if family & ended and call.started > at + NOTE_DELAY:
                text = f"attempt {call.attempt} was called at {call.started}, cancelled at {at}"
                yield Violation("A7", call.request_id, text)
        # One transaction may make a call and cancel its run; it appends them in no order.
        by_worker = moment(control.body["at"])
        for sent in (one for each in runs.sent.values() for one in each):
            is_later = sent.record.timestamp > at and moment(sent.body["at"]) > by_worker
            if is_later and sent.body["request_id"] in ended:
                text = f"a tool was called after it was cancelled at {at}"
                yield Violation("A7", sent.body["call_id"], text)


def _thoughts(history: History) -> Iterator[Violation]:
    for record in history.records:
        if record.topic != THOUGHTS_STAND_IN and CANARY in (record.value or b""):
            yield Violation("A9", record.where, "a thought stands outside of the Attempts")
    for event in history.events["dead-letters"]:
        if event.body.get("cause", {}).get("code") == LEAKED:
            text = "a thought came back to the model in a prompt"
            yield Violation("A9", str(event.body["request_id"]), text)
