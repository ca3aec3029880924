"""Requests of runs on the wire: what is added, and that others are as they were."""

import json

import pytest

from answerbus.account_id import replay_account
from answerbus.envelope import ReceivedRequest, Undecodable, decode_request
from answerbus.limits import RUN_TTL_S_MAX, TTL_S_MAX
from answerbus.private.runs import RunCallRecord
from answerbus.request import Request

PLAIN = {
    "kind": "request",
    "request_id": "r-1",
    "workflow_id": "w",
    "answer_schema": {"kind": "text"},
    "context": {"instructions": "Say something."},
}
RUN = {**PLAIN, "agent": {"name": "support"}}


def received(body: dict[str, object]) -> ReceivedRequest | Undecodable:
    return decode_request(json.dumps(body).encode())


def test_a_run_may_last_for_days() -> None:
    found = received({**RUN, "ttl_s": RUN_TTL_S_MAX})

    assert isinstance(found, ReceivedRequest)
    assert found.request.ttl_s == RUN_TTL_S_MAX


@pytest.mark.parametrize(
    "body", [{**PLAIN, "ttl_s": TTL_S_MAX + 1}, {**RUN, "ttl_s": RUN_TTL_S_MAX + 1}]
)
def test_no_request_lasts_longer_than_its_kind_may(body: dict[str, object]) -> None:
    found = received(body)

    assert isinstance(found, Undecodable)
    assert [(p.path, p.code) for p in found.problems] == [("/ttl_s", "less_than_equal")]


def test_a_plain_request_is_written_without_members_of_runs() -> None:
    """Readers of one version before see what they have always seen."""
    written = json.loads(Request.model_validate_json(json.dumps(PLAIN)).model_dump_json())

    assert not {"agent", "parent"} & written.keys()


def test_the_parent_of_a_child_is_named_without_what_it_may_spend() -> None:
    parent = {"request_id": "r-0", "call_id": "r-0.call.1.0", "depth": 2, "floor": 3, "cap": 4}
    found = received({**PLAIN, "parent": parent})

    assert isinstance(found, ReceivedRequest)
    assert found.request.parent_id is not None
    assert found.request.parent_id.model_dump() == {
        "request_id": "r-0",
        "call_id": "r-0.call.1.0",
        "depth": 2,
    }


@pytest.mark.parametrize("lacking", ["agent", "replay"])
def test_only_a_replay_that_an_agent_works_on_goes_on_from_steps(lacking: str) -> None:
    resumed = {
        "request_id": "r-0",
        "steps": [{"attempt": 1, "calls": []}],
        "previous": "sha256:" + "0" * 64,
        "number": 1,
    }
    died = "r-0.dead-letter"
    account = {"account": replay_account("w", died), "round": 1}
    replay = {"dead_letter_id": died, **account, "by": "ops@acme", "edited": False}
    replayed: dict[str, object] = {**RUN, "replay": replay, "resumed": resumed}
    found = received({name: value for name, value in replayed.items() if name != lacking})

    assert isinstance(received(replayed), ReceivedRequest)
    assert isinstance(found, Undecodable)
    assert [(p.path, p.code) for p in found.problems] == [("/resumed", "no_run")]


@pytest.mark.parametrize("state", [None, "", "page 3"])
def test_a_lane_reads_the_state_of_a_call_as_it_was(state: str | None) -> None:
    record = RunCallRecord(workflow_id="w", request_id="r", n=1, place=0, state=state)

    assert RunCallRecord.model_validate_json(record.model_dump_json()) == record
