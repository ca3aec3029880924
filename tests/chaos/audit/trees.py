"""A1, A3, A4, A6 and A7 of trees: what children spend, what their runs keep, and how they join."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from tests.chaos.audit.accounts import OUT_OF_ATTEMPTS
from tests.chaos.audit.canonical import moment
from tests.chaos.audit.history import Event, History, Json, Violation, account_of, ended_at
from tests.chaos.audit.run_records import CHILD_TOOLS, RunRecords

CLOCK_ERROR = timedelta(milliseconds=10)
JOINED = {"refusal": "declined", "dead_letter": "dead_letter", "unvalidated_result": "dead_letter"}
TOLD_OF_RESULTS = ("ok", "too_large")


def check(history: History) -> Iterator[Violation]:
    """All that is promised of trees of requests."""
    runs = RunRecords(history)
    if runs.is_empty:
        return
    yield from _within_limits(history)
    yield from _asked_once(runs)
    for name, child in history.children.items():
        yield from _asked(runs, name)
        above = history.asked.get(child.body["parent"]["request_id"])
        if above and child.deadline > above.deadline:
            yield Violation("A7", name, f"its deadline is after that of its run, {above.deadline}")
    for name in runs.parents:
        yield from _in_its_turn(runs, name)
        yield from _joined(runs, name)
    below = _spent_below(runs)
    for name in history.children:
        yield from _capped(runs, name, below[name])
    for name in history.terminals:
        yield from _ended_by_budget(runs, name, below)
        yield from _without_parent(history, name)


def _within_limits(history: History) -> Iterator[Violation]:
    """At any time, and not only in the end: what is in flight counts."""
    for event in history.events["ledger"]:
        if event.body["kind"] != "account":
            continue
        limit = event.body["limit"]["attempts"]
        charged = event.body["spent"]["attempts"] + len(event.body["in_flight"])
        if charged > limit:
            text = f"{event.record.where} charges {charged} attempts of {limit}"
            yield Violation("A3", event.body["account_id"], text)


def _asked_once(runs: RunRecords) -> Iterator[Violation]:
    answering = Counter(c.body["parent"]["call_id"] for c in runs.history.children.values())
    for call_id, number in answering.items():
        if number > 1:
            yield Violation("A4", call_id, f"{number} children are to answer it")
    asking = Counter(c.body["parent"]["request_id"] for c in runs.history.children.values())
    for name, number in asking.items():
        allowed = _children_max(runs.definitions.get(name, {}))
        if number > allowed:
            text = f"{number} children, and its agent may ask {allowed}"
            yield Violation("A6", name, text)


def _children_max(definition: Json) -> int:
    delegate, best_of = definition.get("delegate"), definition.get("best_of")
    return int(delegate["children_max"] if delegate else best_of["n"] if best_of else 0)


def _asked(runs: RunRecords, name: str) -> Iterator[Violation]:
    """By a call of a committed step, within the depth that the agent of the root allows."""
    parent = runs.history.children[name].body["parent"]
    asked = runs.asked.get(parent["call_id"])
    if not asked or asked[0][1]["tool"] not in CHILD_TOOLS:
        yield Violation("A4", name, "asked, and no committed step asks it")
    root = [*runs.above(name)][-1:] or [parent["request_id"]]
    allowed = runs.definitions.get(root[0], {}).get("delegate")
    if allowed and parent["depth"] > allowed["depth_max"]:
        text = f"at depth {parent['depth']}, and its tree may have {allowed['depth_max']}"
        yield Violation("A6", name, text)


def _in_its_turn(runs: RunRecords, name: str) -> Iterator[Violation]:
    """It ends before its run, and spends nothing once the call that asked it has ended.

    What a tool asked is read again after a crash. If its run has ended by then, at its deadline or
    by a person, it is not a child any more, and ends as `unknown_parent` or as `cancelled`.
    """
    history, parent = runs.history, runs.parents[name]
    ended = history.terminals[name][0]
    at = ended_at(ended)
    cause = (ended.body.get("cause") or {}).get("kind")
    is_orphan = name not in history.children and cause in ("unknown_parent", "cancelled")
    for terminal in history.terminals.get(parent["request_id"], []):
        if at > ended_at(terminal) + CLOCK_ERROR and not is_orphan:
            yield Violation("A1", name, f"it ended at {at}, and its run before")
    ends = [moment(end.body["at"]) for end in runs.ended.get(parent["call_id"], [])]
    for (request_id, number), message in _attempts(history, name):
        if ends and moment(message.body["started_at"]) > max(ends) + CLOCK_ERROR:
            text = f"attempt {number} was spent after the call had ended that asked it"
            yield Violation("A7", request_id, text)


def _attempts(history: History, name: str) -> Iterator[tuple[tuple[str, int], Event]]:
    number = 1
    while (name, number) in history.attempts:
        yield (name, number), history.attempts[name, number][0]
        number += 1


def _joined(runs: RunRecords, name: str) -> Iterator[Violation]:
    """A run is told of a child what that ended with; only a call that was stopped tells another."""
    if name not in runs.history.children:
        return  # a tool asked it: what its run is told, the tool says
    terminal = runs.history.terminals[name][0]
    ends = runs.ended.get(runs.parents[name]["call_id"], [])
    if not ends:
        return  # A5 says so
    reported, body = ends[0].body["outcome"], terminal.body
    if reported["kind"] == "cancelled":
        if ended_at(terminal) < moment(ends[0].body["at"]) - CLOCK_ERROR:
            text = f"its run was never told that it ended as {body['kind']}"
            yield Violation("A5", name, text)
        return
    expected = JOINED.get(body["kind"])
    is_told = reported["kind"] == expected if expected else reported["kind"] in TOLD_OF_RESULTS
    if reported["kind"] == "ok":
        is_told = is_told and reported["value"] == body["answer"]
    if body["kind"] == "dead_letter":
        is_told = is_told and reported["cause"] == body["cause"]["kind"]
    if not is_told:
        yield Violation("A5", name, f"it ended as {body['kind']}, its run was told {reported}")


def _spent_below(runs: RunRecords) -> Counter[str]:
    """The counted attempts of each request and all below it."""
    below: Counter[str] = Counter()
    for (name, _), text in runs.history.attempts.items():
        if text[0].body["counted"]:
            below.update([name, *runs.above(name)])
    return below


def _capped(runs: RunRecords, name: str, spent: int) -> Iterator[Violation]:
    cap = runs.history.children[name].body["parent"]["cap"]
    if cap is not None and spent > cap:
        text = f"{spent} attempts with all below it, its part is {cap}"
        yield Violation("A3", name, text)


def _ended_by_budget(runs: RunRecords, name: str, below: Counter[str]) -> Iterator[Violation]:
    """Nothing else is left then but what runs keep; and a run has had what it kept."""
    body = runs.history.terminals[name][0].body
    if body.get("cause") != OUT_OF_ATTEMPTS:
        return
    steps = runs.steps.get(name, [])
    if steps:
        asked = [step for step in steps if not step.body.get("composed")]  # else it is no attempt
        last = asked[-1].body["attempt"] if asked else 0
        later = [message for (_, number), message in _attempts(runs.history, name) if number > last]
        if not any(message.body["counted"] for message in later):
            text = "given up for its budget with no attempt since its last step"
            yield Violation("A3", name, text)
    if name not in runs.parents:
        return
    account = body["account"]
    left = account["limit"]["attempts"] - account["spent"]["attempts"]
    caps = {one: _cap(runs, one) for one in (name, *runs.above(name))}
    parts = [cap - below[one] for one, cap in caps.items() if cap is not None]
    kept = _runs_beside(runs, name)
    if min([left, *parts]) > kept:
        text = f"given up for its budget; {left} attempts are left, and {kept} runs keep one"
        yield Violation("A3", name, text)


def _cap(runs: RunRecords, name: str) -> int | None:
    child = runs.history.children.get(name)
    return child.body["parent"]["cap"] if child else None


def _runs_beside(runs: RunRecords, name: str) -> int:
    """How many runs of its account may have been open when it ended."""
    history, request = runs.history, runs.history.requests[name]
    at = ended_at(history.terminals[name][0])
    return sum(
        one != name
        and account_of(body) == account_of(request)
        and all(ended_at(end) >= at - CLOCK_ERROR for end in history.terminals.get(one, []))
        for one, body in runs.requests.items()
    )


def _without_parent(history: History, name: str) -> Iterator[Violation]:
    """Nothing is spent on what no run asks.

    A worker that dies may have called for it while one did; its successor, which reads its record
    again, may know that the call has ended before it reads that.
    """
    body = history.terminals[name][0].body
    texts = [event.body["outcome"] for _, event in _attempts(history, name)]
    is_refused = body.get("cause", {}).get("kind") == "unknown_parent"
    if is_refused and set(texts) - {"unknown", "released"}:
        yield Violation("A3", name, "no run asks it, and something was spent on it")
