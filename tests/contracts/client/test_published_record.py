"""An outcome ends the request whose record it is about, and no other under the same id."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from answerbus.canonical_json import canonical_digest
from answerbus.client.answer_type import AnswerType
from answerbus.client.ask_many import ask_many
from answerbus.client.job import JobRequests
from answerbus.client.published_record import PublishedRecord, ends_request
from answerbus.client.workflow_outcomes import Wanted, WorkflowOutcomes
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import encode
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.wire import bytes_digest
from tests.integration.answering import result
from tests.unit.operators.runs.events import event

OWN, OTHER = PublishedRecord(b'{"n":1}'), PublishedRecord(b'{"n":2}')


def letter(name: str) -> DeadLetter:
    found = event(f"dead_letter/{name}")
    assert isinstance(found, DeadLetter)
    return found


def about(name: str, record: PublishedRecord) -> DeadLetter:
    of = letter(name)
    assert of.raw is not None
    raw = of.raw.model_copy(update={"digest": bytes_digest(record.value)})
    return of.model_copy(update={"raw": raw})


def answering(name: str, record: PublishedRecord) -> AnyOutcome:
    found = event(name)
    assert isinstance(found, Result | UnvalidatedResult | Refusal | DeadLetter)
    digest = canonical_digest(json.loads(record.value))
    return found.model_copy(update={"body_digest": digest})


@pytest.mark.parametrize("name", ["undecodable", "request_too_large", "conflicting_id"])
def test_a_letter_about_another_record_ends_nothing(name: str) -> None:
    assert not ends_request(about(name, OTHER), OWN)
    assert ends_request(about(name, OWN), OWN)


@pytest.mark.parametrize(
    "name",
    ["result/dep_bump", "unvalidated_result/invalid", "refusal/by_model", "dead_letter/rejected"],
)
def test_an_outcome_of_another_body_ends_nothing(name: str) -> None:
    own, other = answering(name, OWN), answering(name, OTHER)

    assert ends_request(own, OWN)
    assert not ends_request(other, OWN)
    assert ends_request(other)
    assert ends_request(other, PublishedRecord(OWN.value, has_new_id=True))
    assert ends_request(other.model_copy(update={"request_id": "r.again-1"}), OWN)
    assert ends_request(other.model_copy(update={"body_digest": None}), OWN)


@pytest.mark.parametrize("name", ["result/replayed", "dead_letter/replayed"])
def test_an_edited_replay_ends_its_request(name: str) -> None:
    assert ends_request(answering(name, OTHER), OWN)


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
    own = about(name, PublishedRecord(encode(request).value)).model_copy(update=ids)
    other = about(name, OTHER).model_copy(update=ids)

    assert job.ends_request(own) == (name != "conflicting_id")
    assert not job.ends_request(other)
    assert job.ends_request(letter("invalid_answer").model_copy(update=ids))


def test_a_follow_up_is_ended_by_a_letter_about_its_own_record_and_by_no_conflict() -> None:
    again = {"request_id": "r.again-1"}
    assert ends_request(about("undecodable", OWN).model_copy(update=again), OWN)
    assert not ends_request(about("undecodable", OTHER).model_copy(update=again), OWN)
    assert not ends_request(about("conflicting_id", OWN).model_copy(update=again), OWN)


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("not even")
        return n


class Odd:
    """A connection whose answers are odd; a letter about a record comes before the last one."""

    def __init__(self, record: PublishedRecord | None) -> None:
        self._record = record

    @asynccontextmanager
    async def outcomes_of(self, wanted: Wanted, *, is_new: bool) -> AsyncIterator[WorkflowOutcomes]:
        assert is_new
        self._wanted, self._outcomes = wanted, WorkflowOutcomes()
        yield self._outcomes
        assert not wanted.follow_ups

    async def publish(self, request: Request) -> None:
        if not request.prior:
            self._add(result(request, {"n": 1}))
            return
        record = self._record or PublishedRecord(encode(request).value)
        ids = {"request_id": request.request_id, "workflow_id": request.workflow_id}
        found = about("undecodable", record).model_copy(update=ids)
        if self._wanted.ends_request(found):
            self._add(found)
        self._add(result(request, {"n": 2}))

    def _add(self, outcome: AnyOutcome) -> None:
        self._outcomes.add(outcome, encode(outcome).value)


@pytest.mark.parametrize(("record", "kind"), [(OTHER, "result"), (None, "dead_letter")])
async def test_a_follow_up_in_a_job_is_ended_by_a_letter_about_its_own_record(
    record: PublishedRecord | None, kind: str
) -> None:
    connection: Any = Odd(record)
    answers = AnswerType.of(Even, Registry(()))
    requests = JobRequests("job", "Even, please.", answers.ref, {}, {})
    requests.add({"n": 1})

    job = await ask_many(connection, "job", [{"n": 1}], requests, answers, 1, None, is_new=True)

    assert [one.outcome.kind for one in job] == [kind]


def test_a_letter_about_a_follow_up_of_an_earlier_start_ends_nothing() -> None:
    request = event("request/minimal")
    assert isinstance(request, Request)
    again = {"request_id": f"{request.request_id}.again-1", "workflow_id": request.workflow_id}
    job = Wanted(request.workflow_id, {request.request_id: request})

    assert not job.ends_request(about("undecodable", OWN).model_copy(update=again))
    assert job.ends_request(letter("invalid_answer").model_copy(update=again))
