"""G3, G4, G5 and G9: the provider's own journal against spends, permits, outcomes and deadlines."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from tests.chaos.audit.canonical import moment
from tests.chaos.audit.history import Call, History, Json, Spend, Violation, ended_at

PERMIT = timedelta(seconds=5)
# Between the worker's look at its clock and the provider's note of the call lies a moment.
NOTE_DELAY = timedelta(milliseconds=250)
# A worker knows the broker's time, by which it writes, to a few milliseconds.
CLOCK_ERROR = timedelta(milliseconds=10)

# What an Attempt may say of a reply: whether it was counted (None: the journal cannot tell), and
# its failure. A call that was cancelled is one that ran out of time.
OUTCOME_OF: Mapping[str | None, tuple[bool | None, frozenset[str | None]]] = {
    "answered": (True, frozenset({None, "malformed", "invalid", "refused"})),
    "refused": (True, frozenset({"refused"})),
    "truncated": (True, frozenset({"truncated"})),
    "no_answer": (True, frozenset({"unavailable"})),
    "timed_out": (True, frozenset({"timed_out"})),
    "unavailable": (None, frozenset({"unavailable"})),
    "throttled": (False, frozenset({"throttled"})),
    "rejected": (False, frozenset({"unavailable"})),
    None: (True, frozenset({"timed_out"})),
}


def check(history: History) -> Iterator[Violation]:
    """Each call, and each Attempt that says there was one."""
    for spend, calls in history.calls_of.items():
        name = f"{spend[0]}.attempt.{spend[1]}"
        for problem in (
            *_permitted(history, spend, calls),
            *_after_commit(history, spend, calls[0]),
            *_in_time(history, calls[0]),
        ):
            yield Violation(problem[0], name, problem[1])
    workers = _workers(history)
    for spend, attempts in history.attempts.items():
        call = history.calls_of.get(spend, [None])[0]
        for problem in _attempt_agrees(attempts[0].body, call, workers):
            yield Violation(problem[0], f"{spend[0]}.attempt.{spend[1]}", problem[1])
    yield from _asked_again(history)


def _asked_again(history: History) -> Iterator[Violation]:
    """A prompt that was answered and paid for is not sent again, whatever came of the answer."""
    asked = dict[tuple[str, str], str]()
    for (request_id, number), attempts in sorted(history.attempts.items()):
        body, name = attempts[0].body, f"{request_id}.attempt.{number}"
        if body["answer_digest"] is not None and body["prompt_digest"] is not None:
            first = asked.setdefault((request_id, body["prompt_digest"]), name)
            if first != name:
                yield Violation("G5", name, f"its prompt is that of {first}, which was answered")


_Problem = tuple[str, str]


def _permitted(history: History, spend: Spend, calls: list[Call]) -> Iterator[_Problem]:
    if len(calls) > 1:
        yield "G3", f"{len(calls)} calls for one spend"
    if spend not in history.attempts and spend not in history.unsettled:
        yield "G3", "a call without a committed spend"


def _after_commit(history: History, spend: Spend, call: Call) -> Iterator[_Problem]:
    """Where the ledger still shows the spend's commit; else by what the Attempt says of it."""
    shown = history.spends.get(spend)
    if shown is not None:
        spent_at = shown.record.timestamp
    elif spend in history.attempts:
        spent_at = moment(history.attempts[spend][0].body["started_at"])
    else:
        return
    if call.started < spent_at:
        yield "G3", f"called at {call.started}, before its spend went out at {spent_at}"
    if call.started > spent_at + PERMIT + NOTE_DELAY:
        yield "G4", f"called at {call.started}, too late for its spend of {spent_at}"


def _in_time(history: History, call: Call) -> Iterator[_Problem]:
    asked = history.asked.get(call.request_id)
    if asked and call.started > asked.deadline + NOTE_DELAY:
        yield "G9", f"called at {call.started}, after its deadline of {asked.deadline}"
    ends = [ended_at(terminal) for terminal in history.terminals.get(call.request_id, [])]
    if ends and call.started > min(ends) + CLOCK_ERROR:
        yield "G4", f"called at {call.started}, after its terminal of {min(ends)}"


def _attempt_agrees(
    attempt: Json, call: Call | None, workers: Mapping[int, str]
) -> Iterator[_Problem]:
    outcome = attempt["outcome"]
    failure = attempt["failure"]["kind"] if attempt["failure"] else None
    if outcome == "unknown":
        if not attempt["counted"]:
            yield "G3", "the end of the call is unknown, and it was not counted"
        if call and call.reply and workers.get(call.pid) == attempt["worker"]:
            yield "G5", f"its own worker got the reply {call.reply} and wrote it off"
    elif outcome == "released" and failure is None:
        if call:
            yield "G3", "given back unused, and there was a call"
        if attempt["counted"]:
            yield "G3", "given back unused, and counted"
    elif call is None:
        yield "G11", f"the Attempt says {outcome}, and the provider saw no call"
    elif call.ended is None:
        yield "G5", f"the Attempt says {outcome}, and the call never ended"
    else:
        yield from _same_outcome(attempt["counted"], failure, call.reply)


def _same_outcome(counted: object, failure: str | None, reply: str | None) -> Iterator[_Problem]:
    expected, failures = OUTCOME_OF[reply]
    if expected is not None and counted != expected:
        yield "G3", f"the reply was {reply}, and counted is {counted}"
    if failure not in failures:
        yield "G5", f"the reply was {reply}, and the Attempt says {failure}"


def _workers(history: History) -> Mapping[int, str]:
    """Which worker a process is, as told by what it settled itself."""
    return {
        history.calls_of[spend][0].pid: attempts[0].body["worker"]
        for spend, attempts in history.attempts.items()
        if spend in history.calls_of and attempts[0].body["outcome"] != "unknown"
    }
