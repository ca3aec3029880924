"""G3, G4 and G11: each committed spend has one Attempt, numbered without gaps, before the end."""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.audit.canonical import moment
from tests.chaos.audit.history import Event, History, Spend, Violation, account_of, ended_at

ENDING = ("result", "unvalidated_result", "refusal", "dead_letter")


def check(history: History) -> Iterator[Violation]:
    """All that is promised of spends."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for request_id, number in history.attempts.keys() | history.spends.keys() | history.unsettled:
        numbers[request_id].add(number)
    for spend, attempts in history.attempts.items():
        yield from _one_attempt(history, spend, attempts)
    for spend in history.spends.keys() - history.attempts.keys() - history.unsettled:
        yield Violation("G11", _name(spend), "the ledger committed this spend; it has no Attempt")
    for request_id, used in numbers.items():
        yield from _numbers(history, request_id, used)
    yield from _after_the_end(history)


def _one_attempt(history: History, spend: Spend, attempts: list[Event]) -> Iterator[Violation]:
    body, name = attempts[0].body, _name(spend)
    if len(attempts) > 1:
        yield Violation("G11", name, f"{len(attempts)} Attempts for one spend")
    if spend in history.unsettled:
        yield Violation("G11", name, "it has its Attempt, and the ledger still has it in flight")
    if body["event_id"] != name:
        yield Violation("G11", name, f"its event id is {body['event_id']}")
    # One that was given back before it was committed leaves no trace but its Attempt.
    was_used = body["outcome"] != "released" or spend in history.calls_of
    if history.is_whole and was_used and spend not in history.spends:
        yield Violation("G3", name, "used, and the ledger never committed this spend")
    request = history.requests.get(spend[0])
    if request is None:
        yield Violation("G3", name, "an Attempt for a request that is not there")
    elif body["account_id"] != account_of(request):
        text = f"charged to {body['account_id']} instead of {account_of(request)}"
        yield Violation("G3", name, text)


def _numbers(history: History, request_id: str, used: set[int]) -> Iterator[Violation]:
    if used != set(range(1, len(used) + 1)):
        text = f"its attempts are numbered {sorted(used)}: there is a gap"
        yield Violation("G11", request_id, text)
    outcomes = {
        number: history.attempts[request_id, number][0].body["outcome"]
        for number in sorted(used)
        if (request_id, number) in history.attempts
    }
    ending = [(number, outcome) for number, outcome in outcomes.items() if outcome in ENDING]
    terminals = history.terminals.get(request_id)
    terminal = terminals[0].body if terminals else {}
    kind, number = terminal.get("kind"), terminal.get("attempt")
    if ending and (len(ending) > 1 or ending[0] not in {(number or ending[0][0], kind)}):
        text = f"its Attempts say that it ended as {ending}; it ended as {(number, kind)}"
        yield Violation("G11", request_id, text)
    elif kind in ENDING[:3] and not ending:
        yield Violation("G11", request_id, f"no Attempt of it says that it became a {kind}")


def _after_the_end(history: History) -> Iterator[Violation]:
    """By numbers, by time, and by the offsets of the ledger."""
    for spend, attempts in history.attempts.items():
        ends = [ended_at(terminal) for terminal in history.terminals.get(spend[0], [])]
        started = moment(attempts[0].body["started_at"])
        before = history.attempts.get((spend[0], spend[1] - 1))
        if ends and started > min(ends):
            yield Violation("G4", _name(spend), f"spent at {started}, it had ended at {min(ends)}")
        elif before and before[0].body["outcome"] in ENDING:
            yield Violation("G4", _name(spend), "spent after the Attempt that ended it")
        elif _is_closed_before(history, spend):
            yield Violation("G4", _name(spend), "spent when the ledger had closed it")


def _is_closed_before(history: History, spend: Spend) -> bool:
    entry, shown = history.closed.get(spend[0]), history.spends.get(spend)
    return bool(entry and shown and entry.record.offset < shown.record.offset)


def _name(spend: Spend) -> str:
    return f"{spend[0]}.attempt.{spend[1]}"
