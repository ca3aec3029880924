"""Every spend has one Attempt, and an account's Attempts form one unbroken chain."""

import hashlib
import json

import rfc8785

from answerbus.attempt import Attempt
from answerbus.budget import Spent
from answerbus.failure import Unknown
from services.worker.core.attempt.reply import CallFacts
from services.worker.core.budget.account import Spend
from services.worker.core.budget.audit import CallTrace, attempt_hash, chain, give_back, write_off
from services.worker.core.budget.ledger import Ledger
from tests.unit.worker.builders import NOW, after, request


def spent(ledger: Ledger, request_id: str = "r-1", tokens: int = 50) -> Spend:
    spend = ledger.spend(request(request_id, budget={"attempts": 9}), tokens, 7, NOW)
    assert isinstance(spend, Spend)
    return spend


def test_the_chain_can_be_checked_from_the_published_json_alone() -> None:
    ledger = Ledger()
    attempts = [write_off(ledger, spent(ledger, f"r-{n}"), NOW, "me") for n in range(3)]
    events = [json.loads(attempt.model_dump_json()) for attempt in attempts]

    previous = None
    for event in events:
        claimed = event.pop("hash")
        assert event["previous"] == previous
        assert claimed == "sha256:" + hashlib.sha256(rfc8785.dumps(event)).hexdigest()
        previous = claimed
    assert ledger.accounts["w-0"].last_attempt_hash == previous


def test_the_hash_covers_every_field() -> None:
    attempt = write_off(ledger := Ledger(), spent(ledger), NOW, "me")
    changed = attempt.model_copy(update={"worker": "another"})

    assert attempt_hash(changed) != attempt.hash
    assert attempt_hash(Attempt.model_validate_json(attempt.model_dump_json())) == attempt.hash


def test_a_call_with_an_unknown_end_is_charged_whole() -> None:
    ledger = Ledger()

    attempt = write_off(ledger, spent(ledger, tokens=50), after(5), "me")

    account = ledger.accounts["w-0"]
    assert (attempt.outcome, attempt.counted, attempt.failure) == ("unknown", True, Unknown())
    assert (account.spent, account.in_flight) == (Spent(attempts=1, tokens=50, micro_usd=7), {})


def test_a_call_that_never_began_costs_nothing_and_keeps_its_number() -> None:
    ledger = Ledger()

    attempt = give_back(ledger, spent(ledger), after(5), "me")

    account = ledger.accounts["w-0"]
    assert (attempt.event_id, attempt.outcome) == ("r-1.attempt.1", "released")
    assert (attempt.counted, account.spent, account.in_flight) == (False, Spent(), {})
    assert spent(ledger).attempt == 2


def test_what_a_provider_says_of_itself_is_cut() -> None:
    ledger = Ledger()
    spend = spent(ledger)
    trace = CallTrace("me", facts=CallFacts(request_id="x" * 10_000, stop_reason="\ud800"))

    attempt = chain(ledger.accounts["w-0"], spend, "result", None, trace, counted=True)

    assert len((attempt.provider_request_id or "").encode()) == 256
    assert attempt.stop_reason == "?"
