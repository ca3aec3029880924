"""G3, G4 and G11 broken: budgets, permits, and the Attempts that account for them."""

from dataclasses import replace

from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import attempted, breaks
from tests.chaos.by_hand.history_builder import HistoryBuilder


@breaks("G3", "r.attempt.1", "2 calls")
def called_twice(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.call("r")
    builder.settle("r")
    builder.end("r")


@breaks("G3", "r.attempt.1", "without a committed spend")
def called_for_free(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.call("r")
    builder.end("r", "dead_letter", cause={"kind": "unknown_profile"})


@breaks("G3", "r.attempt.1", "before its spend")
def called_before_the_commit(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.call("r")
    builder.spend("r")
    builder.settle("r")
    builder.end("r")


@breaks("G3", "r.attempt.1", "never committed this spend")
def called_without_a_commit(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    assert builder.records.pop().topic == "ledger"
    builder.call("r")
    builder.settle("r")
    builder.end("r")


@breaks("G3", "w", "2 attempts spent, the limit is 1")
def budget_exceeded(builder: HistoryBuilder) -> None:
    builder.ask("r", budget={"attempts": 1})
    builder.fail("r")
    builder.work("r", 2)
    builder.unlist("r")


@breaks("G3", "w", "asked for first")
def limit_raised(builder: HistoryBuilder) -> None:
    builder.ask("r", budget={"attempts": 3})
    builder.accounts["w"]["limit"]["attempts"] = 7
    builder.work("r")


@breaks("G3", "w", "its limit is 9, from 2 requests 6 to 6")
def limit_added_twice(builder: HistoryBuilder) -> None:
    builder.ask("one")
    builder.ask("two")
    builder.accounts["w"]["limit"]["attempts"] = 9
    builder.work("one")
    builder.work("two")


@breaks("G3", "w", "asked for first")
def limit_of_a_later_request(builder: HistoryBuilder) -> None:
    builder.ask("one", budget={"attempts": 4})
    builder.ask("two", budget={"attempts": 5})
    builder.accounts["w"]["limit"]["attempts"] = 5
    builder.work("one")
    builder.work("two")


@breaks("G3", "w", "results-0-0 shows another limit")
def limit_not_frozen(builder: HistoryBuilder) -> None:
    attempted(builder)
    account = made.state(builder.accounts["w"]) | {"limit": made.NO_LIMIT}
    builder.end("r", account=account)


@breaks("G3", "r", "given up for its budget")
def given_up_too_soon(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.end("r", "dead_letter", cause={"kind": "budget_exhausted", "which": "attempts"})


@breaks("G3", "r.attempt.1", "counted is False")
def refunded_though_it_ran(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r", reply="truncated")
    builder.settle("r", 1, "retry", failure="truncated", counted=False)
    builder.work("r", 2)


@breaks("G3", "r.attempt.1", "it was not counted")
def unknown_and_refunded(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r", reply="never")
    builder.settle("r", 1, "unknown", failure="unknown", counted=False)
    builder.work("r", 2)


@breaks("G3", "r.attempt.1", "there was a call")
def given_back_and_used(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.settle("r", 1, "released", counted=False)
    builder.work("r", 2)


@breaks("G3", "w", "the ledger says 2 counted attempts, there are 1")
def attempts_do_not_add_up(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.accounts["w"]["spent"]["attempts"] += 1
    builder.end("r")


@breaks("G3", "w", "the ledger says 13 tokens")
def tokens_do_not_add_up(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.accounts["w"]["spent"]["tokens"] += 1
    builder.end("r")


@breaks("G4", "r.attempt.1", "too late for its spend")
def called_late(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.tick(6)
    builder.call("r")
    builder.settle("r")
    builder.end("r")


@breaks("G4", "r.attempt.2", "it had ended")
def spent_after_the_end(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.spend("r", 2)
    builder.accounts["w"]["open"] = []
    builder.settle("r", 2, "released", counted=False)


@breaks("G4", "r.attempt.1", "after its terminal")
def called_after_the_end(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.end("r", "dead_letter", cause={"kind": "unknown_profile"})
    builder.call("r", reply="never")
    builder.settle("r", 1, "unknown", failure="unknown")


@breaks("G4", "w", "r.attempt.1 is in flight")
def ended_in_flight(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.end("r", "dead_letter", cause={"kind": "unknown_profile"})


@breaks("G11", "r.attempt.1", "2 Attempts")
def settled_twice(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    spent = dict(builder.accounts["w"]["in_flight"][0])
    builder.call("r")
    builder.settle("r", 1, "retry", failure="invalid")
    builder.accounts["w"]["in_flight"].append(spent)
    builder.settle("r", 1, "retry", failure="invalid")
    builder.work("r", 2)


@breaks("G11", "r", "there is a gap")
def number_left_out(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r", 2)


@breaks("G11", "r.attempt.1", "it has no Attempt")
def spend_omitted(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.accounts["w"]["in_flight"].clear()
    builder.work("r", 2)


@breaks("G11", "r.attempt.1", "still has it in flight")
def settled_and_in_flight(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    spent = dict(builder.accounts["w"]["in_flight"][0])
    builder.call("r")
    builder.settle("r")
    builder.accounts["w"]["in_flight"].append(spent)
    builder.end("r")


@breaks("G11", "w", "has r as open")
def ended_and_open(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.write(
        "account", **builder.accounts["w"] | {"open": [{"request_id": "r", "attempts": 1}]}
    )


@breaks("G11", "w", "does not follow")
def chain_broken(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.fail("r")
    builder.accounts["w"]["last_attempt_hash"] = None
    builder.work("r", 2)
    builder.unlist("r")


@breaks("G11", "w", "not the hash of what it says")
def attempt_altered(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.records = [
        replace(record, value=(record.value or b"").replace(b'"one"', b'"two"'))
        if record.topic == "attempts"
        else record
        for record in builder.records
    ]


@breaks("G11", "w", "not the last Attempt")
def head_of_the_chain_lost(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.accounts["w"]["last_attempt_hash"] = made.DIGEST
    builder.end("r")


@breaks("G11", "r", "no Attempt of it says that it became a result")
def result_from_no_attempt(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.settle("r", 1, "retry", failure="invalid")
    builder.end("r")


@breaks("G11", "r", "it ended as (1, 'refusal')")
def ended_otherwise(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", "refusal")


@breaks("G11", "r.attempt.1", "its event id is")
def attempt_with_an_id_of_its_own(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.settle("r", event_id="r.attempt.2")
    builder.end("r")


@breaks("G11", "r.attempt.1", "saw no call")
def attempt_without_a_call(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.settle("r")
    builder.end("r")
