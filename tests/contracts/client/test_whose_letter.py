"""A dead letter about a record ends the request that was published in it, and no other."""

import pytest

from answerbus.client.outcome_reader import ends_request
from answerbus.client.workflow_outcomes import Wanted
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import encode
from answerbus.request import Request
from answerbus.wire import bytes_digest
from tests.unit.operators.runs.events import event

OWN, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


def letter(name: str) -> DeadLetter:
    found = event(f"dead_letter/{name}")
    assert isinstance(found, DeadLetter)
    return found


def about(name: str, digest: str) -> DeadLetter:
    of = letter(name)
    assert of.raw is not None
    return of.model_copy(update={"raw": of.raw.model_copy(update={"digest": digest})})


@pytest.mark.parametrize("name", ["undecodable", "request_too_large", "conflicting_id"])
def test_a_letter_about_another_record_ends_nothing(name: str) -> None:
    assert not ends_request(about(name, OTHER), OWN)
    assert ends_request(about(name, OWN), OWN)


def test_without_a_digest_a_conflict_alone_ends_nothing() -> None:
    assert not ends_request(about("conflicting_id", OTHER))
    assert ends_request(about("undecodable", OTHER))
    assert ends_request(letter("invalid_answer"), OWN)


@pytest.mark.parametrize("name", ["undecodable", "request_too_large", "conflicting_id"])
def test_a_row_of_a_job_is_ended_by_a_letter_about_its_own_record_and_by_no_conflict(
    name: str,
) -> None:
    request = event("request/minimal")
    assert isinstance(request, Request)
    ids = {"request_id": request.request_id, "workflow_id": request.workflow_id}
    job = Wanted(request.workflow_id, {request.request_id: request})
    own = about(name, bytes_digest(encode(request).value)).model_copy(update=ids)
    other = about(name, OTHER).model_copy(update=ids)

    assert job.ends_request(own) == (name != "conflicting_id")
    assert not job.ends_request(other)
    assert job.ends_request(letter("invalid_answer").model_copy(update=ids))
