"""G3, G4 and G11 broken: budgets, permits, and the Attempts that account for them."""

from dataclasses import replace

from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import attempted, breaks
from tests.chaos.by_hand.story import Story


@breaks("G3", "r.attempt.1", "2 calls")
def called_twice(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r")
    story.call("r")
    story.settle("r")
    story.end("r")


@breaks("G3", "r.attempt.1", "without a committed spend")
def called_for_free(story: Story) -> None:
    story.ask("r")
    story.call("r")
    story.end("r", "dead_letter", cause={"kind": "unknown_profile"})


@breaks("G3", "r.attempt.1", "before its spend")
def called_before_the_commit(story: Story) -> None:
    story.ask("r")
    story.call("r")
    story.spend("r")
    story.settle("r")
    story.end("r")


@breaks("G3", "r.attempt.1", "never committed this spend")
def called_without_a_commit(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    assert story.records.pop().topic == "ledger"
    story.call("r")
    story.settle("r")
    story.end("r")


@breaks("G3", "w", "2 attempts spent, the limit is 1")
def budget_exceeded(story: Story) -> None:
    story.ask("r", budget={"attempts": 1})
    story.fail("r")
    story.work("r", 2)
    story.unlist("r")


@breaks("G3", "w", "asked for first")
def limit_raised(story: Story) -> None:
    story.ask("r")
    story.accounts["w"]["limit"]["attempts"] = 7
    story.work("r")


@breaks("G3", "w", "asked for first")
def limit_of_a_later_request(story: Story) -> None:
    story.ask("one", budget={"attempts": 4})
    story.ask("two", budget={"attempts": 5})
    story.accounts["w"]["limit"]["attempts"] = 5
    story.work("one")
    story.work("two")


@breaks("G3", "w", "results-0-0 shows another limit")
def limit_not_frozen(story: Story) -> None:
    attempted(story)
    account = made.state(story.accounts["w"]) | {"limit": made.NO_LIMIT}
    story.end("r", account=account)


@breaks("G3", "r", "given up for its budget")
def given_up_too_soon(story: Story) -> None:
    story.ask("r")
    story.end("r", "dead_letter", cause={"kind": "budget_exhausted", "which": "attempts"})


@breaks("G3", "r.attempt.1", "counted is False")
def refunded_though_it_ran(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r", reply="truncated")
    story.settle("r", 1, "retry", failure="truncated", counted=False)
    story.work("r", 2)


@breaks("G3", "r.attempt.1", "it was not counted")
def unknown_and_refunded(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r", reply="never")
    story.settle("r", 1, "unknown", failure="unknown", counted=False)
    story.work("r", 2)


@breaks("G3", "r.attempt.1", "there was a call")
def given_back_and_used(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r")
    story.settle("r", 1, "released", counted=False)
    story.work("r", 2)


@breaks("G3", "w", "the ledger says 2 counted attempts, there are 1")
def attempts_do_not_add_up(story: Story) -> None:
    attempted(story)
    story.accounts["w"]["spent"]["attempts"] += 1
    story.end("r")


@breaks("G3", "w", "the ledger says 13 tokens")
def tokens_do_not_add_up(story: Story) -> None:
    attempted(story)
    story.accounts["w"]["spent"]["tokens"] += 1
    story.end("r")


@breaks("G4", "r.attempt.1", "too late for its spend")
def called_late(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.tick(6)
    story.call("r")
    story.settle("r")
    story.end("r")


@breaks("G4", "r.attempt.2", "it had ended")
def spent_after_the_end(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.spend("r", 2)
    story.accounts["w"]["open"] = []
    story.settle("r", 2, "released", counted=False)


@breaks("G4", "r.attempt.1", "after its terminal")
def called_after_the_end(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.end("r", "dead_letter", cause={"kind": "unknown_profile"})
    story.call("r", reply="never")
    story.settle("r", 1, "unknown", failure="unknown")


@breaks("G4", "w", "r.attempt.1 is in flight")
def ended_in_flight(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.end("r", "dead_letter", cause={"kind": "unknown_profile"})


@breaks("G11", "r.attempt.1", "2 Attempts")
def told_twice(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    spent = dict(story.accounts["w"]["in_flight"][0])
    story.call("r")
    story.settle("r", 1, "retry", failure="invalid")
    story.accounts["w"]["in_flight"].append(spent)
    story.settle("r", 1, "retry", failure="invalid")
    story.work("r", 2)


@breaks("G11", "r", "there is a gap")
def number_left_out(story: Story) -> None:
    story.ask("r")
    story.work("r", 2)


@breaks("G11", "r.attempt.1", "it has no Attempt")
def spend_forgotten(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.accounts["w"]["in_flight"].clear()
    story.work("r", 2)


@breaks("G11", "r.attempt.1", "still has it in flight")
def settled_and_in_flight(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    spent = dict(story.accounts["w"]["in_flight"][0])
    story.call("r")
    story.settle("r")
    story.accounts["w"]["in_flight"].append(spent)
    story.end("r")


@breaks("G11", "w", "has r as open")
def ended_and_open(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.write("account", **story.accounts["w"] | {"open": [{"request_id": "r", "attempts": 1}]})


@breaks("G11", "w", "does not follow")
def chain_broken(story: Story) -> None:
    story.ask("r")
    story.fail("r")
    story.accounts["w"]["last_attempt_hash"] = None
    story.work("r", 2)
    story.unlist("r")


@breaks("G11", "w", "not the hash of what it says")
def attempt_altered(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.records = [
        replace(record, value=(record.value or b"").replace(b'"one"', b'"two"'))
        if record.topic == "attempts"
        else record
        for record in story.records
    ]


@breaks("G11", "w", "not the last Attempt")
def head_of_the_chain_lost(story: Story) -> None:
    attempted(story)
    story.accounts["w"]["last_attempt_hash"] = made.DIGEST
    story.end("r")


@breaks("G11", "r", "no Attempt of it says that it became a result")
def result_from_no_attempt(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r")
    story.settle("r", 1, "retry", failure="invalid")
    story.end("r")


@breaks("G11", "r", "it ended as (1, 'refusal')")
def ended_otherwise(story: Story) -> None:
    attempted(story)
    story.end("r", "refusal")


@breaks("G11", "r.attempt.1", "its event id is")
def attempt_with_an_id_of_its_own(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r")
    story.settle("r", event_id="r.attempt.2")
    story.end("r")


@breaks("G11", "r.attempt.1", "saw no call")
def attempt_without_a_call(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.settle("r")
    story.end("r")
