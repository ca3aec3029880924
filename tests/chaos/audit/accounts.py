"""G3 and G11: accounts add up to their Attempts, which are chained, and keep to their limits."""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.audit.canonical import digest
from tests.chaos.audit.history import Event, History, Json, Violation, account_of, is_ordered

OUT_OF_ATTEMPTS = {"kind": "budget_exhausted", "which": "attempts"}
NO_LIMITS = {"attempts": 3, "tokens": None, "micro_usd": None}  # by default


def check(history: History) -> Iterator[Violation]:
    """All that is promised of accounts."""
    chains: dict[str, list[Event]] = defaultdict(list)
    for event in history.events["attempts"]:
        chains[event.body["account_id"]].append(event)
    for account_id, chain in chains.items():
        yield from _chain(account_id, chain)
        if account_id not in history.accounts:
            yield Violation("G3", account_id, "it has Attempts and no account in the ledger")
    requests: dict[str, list[Json]] = defaultdict(list)
    for arrivals in history.accepted.values():
        requests[account_of(arrivals[0].body)].append(arrivals[0].body)
    for account_id, event in history.accounts.items():
        yield from _sums(account_id, event.body, chains.get(account_id, []))
        yield from _limit(history, account_id, event.body, requests[account_id])
        yield from _open(history, account_id, event.body)
    yield from _shown(history, requests)


def _chain(account_id: str, chain: list[Event]) -> Iterator[Violation]:
    previous = None
    for event in chain:
        body = event.body
        where = event.record.where
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
    money, is_whole = _reported(counted, "micro_usd")
    tools = [account, *(event.body for event in chain)]  # the last ones no Attempt has said yet
    money += sum(body.get("tools_micro_usd", 0) for body in tools)
    used = {"tokens": _tokens(counted), "micro_usd": (money, is_whole)}
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


def _limit(
    history: History, account_id: str, account: Json, requests: list[Json]
) -> Iterator[Violation]:
    """The first request that names a budget sets it; where none does, each adds three attempts.

    Of requests without an order any may be first, and of those whose parent is not known.
    """
    unnamed = [request for request in requests if "budget" not in request]
    if unnamed and not any("agent" in request or "parent" in request for request in requests):
        yield from _sum(history, account_id, account["limit"], requests, unnamed)
    if unnamed:
        return
    is_in_order = all(is_ordered(one) and "parent" not in one for one in requests)
    candidates = requests[:1] if is_in_order else requests
    budgets = [NO_LIMITS | request.get("budget", {}) for request in candidates]
    if account["limit"] not in budgets:
        text = f"its limit {account['limit']} is none of {budgets[:3]}, asked for first"
        yield Violation("G3", account_id, text)


def _sum(
    history: History, account_id: str, limit: Json, requests: list[Json], unnamed: list[Json]
) -> Iterator[Violation]:
    """A request adds once, however often it is read; one that was not tried yet may not have."""
    own = NO_LIMITS["attempts"] or 0
    adding = [request for request in unnamed if not request.get("prior")]
    most = max(own, own * len(adding))
    if len(unnamed) < len(requests):  # one of them has settled it: what was charged is the least
        named = [
            request["budget"].get("attempts", own) for request in requests if "budget" in request
        ]
        least, most = min(own, *named), max(most, *named)
    else:
        ended = [one for one in adding if one["request_id"] in history.terminals]
        least = max(own, own * len(ended))
    if not least <= limit["attempts"] <= most:
        text = f"its limit is {limit['attempts']}, from {len(requests)} requests {least} to {most}"
        yield Violation("G3", account_id, text)


def _shown(history: History, requests: dict[str, list[Json]]) -> Iterator[Violation]:
    """What other events say of an account: a limit that was named stays, another only grows.

    And it is not given up too soon.
    """
    for topic in ("results", "refusals", "retries", "dead-letters"):
        for event in history.events[topic]:
            shown = event.body.get("account")
            if shown is None or _is_child_of_nothing(history, event.body):
                continue
            account = history.accounts.get(shown["id"])
            if account and not _agrees(shown["limit"], account.body, requests[shown["id"]]):
                text = f"{event.record.where} shows another limit than the ledger"
                yield Violation("G3", shown["id"], text)
            # What is left to a child is less than what is left: see trees.py.
            gave_up = event.body.get("cause") == OUT_OF_ATTEMPTS and not event.body.get("parent")
            if gave_up and shown["spent"]["attempts"] < shown["limit"]["attempts"]:
                text = f"given up for its budget, of which there is left: {shown}"
                yield Violation("G3", event.body["request_id"], text)


def _is_child_of_nothing(history: History, body: Json) -> bool:
    """Its budget was to be a part of its run's, and sets no limit where there is no such run."""
    name = body["request_id"]
    is_asked = name in history.children or (name, 1) in history.attempts
    return bool(body.get("parent")) and not is_asked


def _agrees(shown: Json, account: Json, requests: list[Json]) -> bool:
    """Whether the account may have had this limit before."""
    final = account["limit"]
    if all("budget" in request for request in requests):
        return bool(shown == final)
    return "settled_by" in account or bool(shown["attempts"] <= final["attempts"])


def _open(history: History, account_id: str, account: Json) -> Iterator[Violation]:
    for entry in account["open"]:
        if entry["request_id"] in history.terminals:
            text = f"the ledger has {entry['request_id']} as open, and it has its terminal"
            yield Violation("G11", account_id, text)
    for entry in account["in_flight"]:
        spend = entry["request_id"], entry["attempt"]
        if entry["request_id"] in history.terminals and spend not in history.attempts:
            text = f"{spend[0]}.attempt.{spend[1]} is in flight, and there is a terminal"
            yield Violation("G4", account_id, text)
