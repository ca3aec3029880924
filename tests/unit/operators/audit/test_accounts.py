"""Accounts that are not those of workflow and letter, and replays that no operator made."""

import json

from answerbus.account_id import replay_account
from answerbus.dead_letter import Replayed, UnknownProfile
from answerbus.topics import DEAD_LETTERS, RESULTS
from services.operators.records.stored import Stored
from tests.unit.operators.audit.test_verification import attempts, instead, partition, rehashed
from tests.unit.operators.audit.verifying import verified
from tests.unit.operators.partition import WORKFLOW, Partition, changed
from tests.unit.worker.builders import NOW

__all__ = ["partition"]  # the fixture


def other_account(record: Stored, account_id: str) -> Stored:
    """As a worker of earlier days would have charged the request."""
    body = json.loads(record.value or b"")
    account = {**body["account"], "id": account_id}
    return changed(record, account=account)


def test_a_result_that_was_charged_to_another_workflows_account_is_named(
    partition: Partition,
) -> None:
    result = partition.of(RESULTS)[0]

    found = verified(instead(partition.stored, result, other_account(result, "victim")))

    assert {(one.kind, one.account_id, one.expected) for one in found.breaks} == {
        ("account", "victim", f"{WORKFLOW}, its own"),
        ("account", WORKFLOW, "victim, as its result says"),
    }


def test_a_result_that_was_charged_to_the_account_of_another_dead_letter_is_named(
    partition: Partition,
) -> None:
    result = partition.of(RESULTS)[0]
    account = replay_account(WORKFLOW, "b.dead-letter")
    replayed = changed(other_account(result, account), replay={"dead_letter_id": "a.dead-letter"})

    found = verified(instead(partition.stored, result, replayed))

    expected = f"{replay_account(WORKFLOW, 'a.dead-letter')}, its own"
    assert ("account", account, expected) in {
        (one.kind, one.account_id, one.expected) for one in found.breaks
    }


def test_an_attempt_of_an_account_that_is_not_its_workflows_is_named(partition: Partition) -> None:
    record = attempts(partition.stored)[0]
    forged = rehashed(record, account_id="victim")

    found = verified(instead(partition.stored, record, forged)).breaks

    assert [one.kind for one in found if one.account_id == "victim"] == ["account"]


def test_a_dead_letter_of_a_replay_that_cannot_hold_its_request_is_no_finding() -> None:
    partition, dead_letter_id = Partition(), "r-3.dead-letter"
    account = replay_account(WORKFLOW, dead_letter_id)
    replay = {"dead_letter_id": dead_letter_id, "round": 1, "account": account, "by": "ops@acme"}
    partition.ask("again", replay=replay | {"edited": False})
    lane_request, _ = partition.spend()
    partition.dead_letter(lane_request, UnknownProfile())
    (letter,) = partition.of(DEAD_LETTERS)

    found = verified(instead(partition.stored, letter, changed(letter, request=None)))

    assert [one for one in found.breaks if one.kind == "account"] == []


def test_a_replay_is_one_that_an_operator_made() -> None:
    partition, dead_letter_id = Partition(), "r-3.dead-letter"
    replay = {
        "dead_letter_id": dead_letter_id,
        "round": 1,
        "account": replay_account(WORKFLOW, dead_letter_id),
        "by": "ops@acme",
        "edited": False,
    }
    partition.ask("again", replay=replay)
    partition.call()
    missing = [found for _, found in verified(partition.stored).replays.not_published()]

    partition.tell(
        Replayed(
            dead_letter_id=dead_letter_id, request_id="again", round=1, by="o", reason="r", at=NOW
        )
    )
    found = verified(partition.stored)

    assert [(one.kind, one.account_id) for one in missing] == [("not_replayed", replay["account"])]
    assert (found.breaks, list(found.replays.not_published())) == ([], [])
