"""G3, G4 and G11: each committed spend has one Attempt, numbers have no gaps, accounts add up."""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.audit.canonical import digest, moment
from tests.chaos.audit.history import Event, History, Json, Spend, Violation, account_of
from tests.chaos.audit.terminals import ended_at

OUT_OF_ATTEMPTS = {"kind": "budget_exhausted", "which": "attempts"}
ENDING = ("result", "unvalidated_result", "refusal", "dead_letter")


def check(history: History) -> Iterator[Violation]:
    """All that is promised of spends and accounts."""
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
    yield from _accounts(history)
    yield from _shown(history)


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


def _accounts(history: History) -> Iterator[Violation]:
    chains: dict[str, list[Event]] = defaultdict(list)
    for event in history.events["attempts"]:
        chains[event.body["account_id"]].append(event)
    for account_id, chain in chains.items():
        yield from _chain(account_id, chain)
        if account_id not in history.accounts:
            yield Violation("G3", account_id, "it has Attempts and no account in the ledger")
    for account_id, event in history.accounts.items():
        yield from _sums(account_id, event.body, chains.get(account_id, []))
        yield from _limit(history, account_id, event.body)
        yield from _open(history, account_id, event.body)


def _chain(account_id: str, chain: list[Event]) -> Iterator[Violation]:
    previous = None
    for event in chain:
        body = event.body
        where = f"attempts-{_at(event)}"
        if body["previous"] != previous:
            text = f"{where} does not follow on the Attempt before it"
            yield Violation("G11", account_id, text)
        if body["hash"] != digest({name: body[name] for name in body.keys() - {"hash"}}):
            yield Violation("G11", account_id, f"{where} has not the hash of what it says")
        previous = body["hash"]


def _sums(account_id: str, account: Json, chain: list[Event]) -> Iterator[Violation]:
    spent, limit = account["spent"], account["limit"]
    counted = [event.body for event in chain if event.body["counted"]]
    if spent["attempts"] != len(counted):
        text = f"the ledger says {spent['attempts']} counted attempts, there are {len(counted)}"
        yield Violation("G3", account_id, text)
    if chain and account["last_attempt_hash"] != chain[-1].body["hash"]:
        yield Violation("G11", account_id, "the ledger's head of the chain is not the last Attempt")
    used = {"tokens": _tokens(counted), "micro_usd": _reported(counted, "micro_usd")}
    for unit, (total, is_exact) in used.items():
        if spent[unit] < total or (is_exact and spent[unit] != total):
            text = f"the ledger says {spent[unit]} {unit}, its Attempts used {total}"
            yield Violation("G3", account_id, text)
    for unit, most in limit.items():
        if most is not None and spent[unit] > most:
            yield Violation("G3", account_id, f"{spent[unit]} {unit} spent, the limit is {most}")


def _tokens(counted: list[Json]) -> tuple[int, bool]:
    read, read_all = _reported(counted, "input_tokens")
    written, written_all = _reported(counted, "output_tokens")
    return read + written, read_all and written_all


def _reported(counted: list[Json], unit: str) -> tuple[int, bool]:
    """The sum of what was reported, and whether that was everything: the rest is at its worst."""
    amounts = [body["usage"][unit] for body in counted]
    return sum(amount or 0 for amount in amounts), None not in amounts


def _limit(history: History, account_id: str, account: Json) -> Iterator[Violation]:
    budgets = [
        {"attempts": 3, "tokens": None, "micro_usd": None, **request.get("budget", {})}
        for request in history.requests.values()
        if account_of(request) == account_id
    ]
    if account["limit"] not in budgets:
        text = f"its limit {account['limit']} is the budget of none of its requests"
        yield Violation("G3", account_id, text)


def _shown(history: History) -> Iterator[Violation]:
    """What other events say of an account: its limit is frozen, and it is not given up too soon."""
    for topic in ("results", "refusals", "retries", "dead-letters"):
        for event in history.events[topic]:
            shown = event.body.get("account")
            if shown is None:
                continue
            account = history.accounts.get(shown["id"])
            if account and shown["limit"] != account.body["limit"]:
                text = f"{topic}-{_at(event)} shows another limit than the ledger"
                yield Violation("G3", shown["id"], text)
            gave_up = event.body.get("cause") == OUT_OF_ATTEMPTS
            if gave_up and shown["spent"]["attempts"] < shown["limit"]["attempts"]:
                text = f"given up for its budget, of which there is left: {shown}"
                yield Violation("G3", event.body["request_id"], text)


def _open(history: History, account_id: str, account: Json) -> Iterator[Violation]:
    for entry in account["open"]:
        if entry["request_id"] in history.terminals:
            text = f"the ledger has {entry['request_id']} as open, and it has its terminal"
            yield Violation("G11", account_id, text)
    for entry in account["in_flight"]:
        spend = entry["request_id"], entry["attempt"]
        if entry["request_id"] in history.terminals and spend not in history.attempts:
            text = f"{_name(spend)} is in flight, and there is a terminal"
            yield Violation("G4", account_id, text)


def _name(spend: Spend) -> str:
    return f"{spend[0]}.attempt.{spend[1]}"


def _at(event: Event) -> str:
    return f"{event.record.partition}-{event.record.offset}"
