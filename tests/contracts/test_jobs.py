"""Jobs of many rows: each row is asked once, however often the job is started."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from answerbus.budget import Budget, Spent
from answerbus.client import JobProgress, SyncClient
from answerbus.client.job import SHOWN_MAX, JobRequests
from answerbus.client.testing import FakeClient, FakeClientError, Reply, answered, refused
from answerbus.client.turns import TURN_S_MAX
from answerbus.client.workflow_outcomes import WorkflowOutcomes
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import encode
from answerbus.limits import REQUEST_BYTES_MAX
from answerbus.outcome import Refusal, Result
from answerbus.request import Request, TextRef
from tests.unit.operators.runs.events import event

pytest_plugins = ["answerbus.client.testing.pytest_plugin"]

ROWS = [{"n": number} for number in range(5)]


class Double(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("not even")
        return n


def number_of(request: Request) -> int:
    return int(str(request.context.facts[-1].value))


def doubled(request: Request) -> Reply:
    if number_of(request) == 3:
        return refused("Not this one.")
    return answered({"n": 2 * number_of(request)})


async def test_each_row_has_its_outcome_in_the_order_of_the_rows(fake_client: FakeClient) -> None:
    fake_client.prepare_by(doubled)
    seen: list[JobProgress[Any]] = []

    outcomes = await fake_client.ask_many(
        ROWS, "Double it.", response_model=Double, on_progress=seen.append, facts={"unit": "m"}
    )

    assert [one.row for one in outcomes] == ROWS
    assert [one.number for one in outcomes] == [0, 1, 2, 3, 4]
    assert isinstance(outcomes[3].outcome, Refusal)
    assert outcomes[4].outcome.unwrap() == Double(n=8)
    assert [progress.done for progress in seen] == [1, 2, 3, 4, 5]
    assert (seen[-1].answered, seen[-1].refused) == (4, 1)
    requests = fake_client.requests
    assert {request.workflow_id for request in requests} == {outcomes.job_id}
    assert {request.policy.ordering for request in requests} == {"none"}
    assert [fact.name for fact in requests[0].context.facts] == ["unit", "n"]


async def test_a_job_that_is_started_again_asks_what_has_no_outcome(
    fake_client: FakeClient,
) -> None:
    fake_client.prepare_by(doubled)
    first = await fake_client.ask_many(
        ROWS[:3], "Double it.", job_id="j", response_model=Double, concurrency=1
    )
    asked = len(fake_client.requests)

    again = await fake_client.ask_many(
        [{"n": 7}, *ROWS[:3]], "Double it.", job_id="j", response_model=Double
    )

    assert (asked, len(fake_client.requests)) == (3, 4)
    assert [one.outcome for one in again[1:]] == [one.outcome for one in first]


async def test_equal_rows_are_rows_of_their_own(fake_client: FakeClient) -> None:
    fake_client.prepare_by(doubled)

    outcomes = await fake_client.ask_many([ROWS[1]] * 3, "Double it.", response_model=Double)

    names = [request.request_id for request in fake_client.requests]
    assert len(set(names)) == len(outcomes) == 3
    assert [name.removeprefix(names[0]) for name in names] == ["", ".2", ".3"]


async def test_a_row_whose_answer_breaks_a_rule_is_asked_again(fake_client: FakeClient) -> None:
    fake_client.prepare_by(lambda request: answered({"n": 2 if request.prior else 1}))

    outcomes = await fake_client.ask_many(
        ROWS, "An even number.", job_id="j", response_model=Double
    )
    again = await fake_client.ask_many(ROWS, "An even number.", job_id="j", response_model=Double)

    assert len(fake_client.requests) == 2 * len(ROWS)
    assert {one.outcome.unwrap().n for one in outcomes} == {2}
    assert [*again] == [*outcomes]


async def test_one_budget_is_for_all_rows(fake_client: FakeClient) -> None:
    fake_client.prepare_by(doubled)

    outcomes = await fake_client.ask_many(
        ROWS, "Double it.", response_model=Double, budget=Budget(attempts=2), concurrency=1
    )

    assert [isinstance(one.outcome, Result) for one in outcomes] == [True, True, *[False] * 3]
    assert outcomes.progress.spent == Spent(attempts=2)


async def test_rows_are_plain_data_for_a_table(fake_client: FakeClient) -> None:
    fake_client.prepare_by(doubled)
    texts = await fake_client.ask_many(ROWS[2:4], "Double it.", response_model=Double)

    assert texts.records() == [
        {"n": 2, "outcome": "result", "answer.n": 4},
        {"n": 3, "outcome": "refusal", "why": str(texts[1].outcome)},
    ]


async def test_what_a_notebook_shows_is_escaped(fake_client: FakeClient) -> None:
    hostile = "<script>alert(1)</script>"
    fake_client.prepare_by(lambda _: answered(hostile))
    job = await fake_client.ask_many([{"n": n} for n in range(SHOWN_MAX + 2)], "Say it.")

    for shown in (job._repr_html_(), job[0].outcome._repr_html_()):
        assert "&lt;script&gt;" in shown
        assert "<script>" not in shown
    assert "and 2 more" in job._repr_html_()


def test_a_job_without_await_tells_of_its_progress_in_the_thread_that_asks() -> None:
    fake, seen = FakeClient(), list[str]()
    fake.prepare_by(doubled)

    with SyncClient(over=fake) as client:
        outcomes = client.ask_many(
            ROWS,
            "Double it.",
            on_progress=lambda progress: seen.append(str(progress)),
            response_model=Double,
        )

    assert len(outcomes) == 5
    assert seen[-1] == "[####################] 5 of 5: 4 answered, 1 refused; 0 tokens so far"


@pytest.mark.parametrize(
    ("budget", "attempts"),
    [
        (Budget(micro_usd=5_000_000), 3 * len(ROWS)),
        (Budget(tokens=10_000), 3 * len(ROWS)),
        ({"micro_usd": 5_000_000}, 3 * len(ROWS)),
        (Budget(attempts=5, micro_usd=5_000_000), 5),
    ],
)
async def test_a_budget_without_attempts_has_three_for_each_row(
    fake_client: FakeClient, budget: Any, attempts: int
) -> None:
    fake_client.prepare_by(doubled)

    outcomes = await fake_client.ask_many(ROWS, "Double it.", response_model=Double, budget=budget)

    given = Budget.model_validate(budget)
    expected = given.model_copy(update={"attempts": attempts})
    assert [request.budget for request in fake_client.requests] == [expected] * len(ROWS)
    assert outcomes.progress.done == outcomes.progress.rows
    assert not any(isinstance(one.outcome, DeadLetter) for one in outcomes)


@pytest.mark.parametrize("name", ["budgt", "request_id", "agent"])
async def test_an_option_that_no_job_has_is_refused(fake_client: FakeClient, name: str) -> None:
    options: dict[str, Any] = {name: "x"}

    with pytest.raises(TypeError, match=f"unexpected keyword argument: {name}"):
        await fake_client.ask_many(ROWS, "Double it.", **options)
    assert not fake_client.requests


@pytest.mark.parametrize("value", [float("nan"), [0] * 20_000, "x" * 600_000], ids=type)
async def test_a_row_that_no_worker_can_read_is_refused_before_one_is_asked(
    fake_client: FakeClient, value: object
) -> None:
    with pytest.raises(ValueError, match=r"^row 5: "):
        await fake_client.ask_many([*ROWS, {"n": value}], "Double it.")
    assert not fake_client.requests


async def test_an_empty_id_is_refused_since_a_new_one_would_be_paid_again(
    fake_client: FakeClient,
) -> None:
    with pytest.raises(ValidationError, match="at least 1 character"):
        await fake_client.ask_many(ROWS, "Double it.", job_id="")
    with pytest.raises(ValidationError, match="at least 1 character"):
        await fake_client.ask("Double it.", workflow_id="w", request_id="")
    assert not fake_client.requests


def test_a_row_that_is_a_byte_too_large_with_its_id_is_refused() -> None:
    requests = JobRequests("job", "Double it.", TextRef(), {}, {})
    requests.add({"n": ""})
    (request,) = requests.values()
    room = REQUEST_BYTES_MAX - len(encode(request).value)

    with pytest.raises(ValueError, match=r"^row 1: "):
        requests.add({"n": "x" * (room + 1)})


async def test_the_error_of_one_row_is_raised_as_it_is(fake_client: FakeClient) -> None:
    with pytest.raises(FakeClientError, match="prepared no outcome"):
        await fake_client.ask_many(ROWS, "Double it.")
    with pytest.raises(ValueError, match="concurrency is 1 to"):
        await fake_client.ask_many(ROWS, "Double it.", concurrency=0)


def test_the_cost_to_the_end_is_that_of_the_rows_so_far() -> None:
    progress: JobProgress[Any] = JobProgress(10, answered=4, spent=Spent(micro_usd=2_000_000))

    assert progress.micro_usd_at_end == 5_000_000
    assert str(progress).endswith("$2.0000 so far, about $5.0000 in all")
    cheap: JobProgress[Any] = JobProgress(10, answered=4, spent=Spent(micro_usd=42))
    assert str(cheap).endswith("$0.000042 so far, about $0.0001 in all")
    assert JobProgress(0).micro_usd_at_end == 0


async def test_other_tasks_have_their_turn_while_requests_are_made(
    fake_client: FakeClient,
) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def rows() -> Iterator[dict[str, object]]:
        until = time.perf_counter() + 5 * TURN_S_MAX
        while time.perf_counter() < until:
            yield {"n": 1}
        raise EOFError

    task = asyncio.create_task(other())
    with pytest.raises(EOFError):
        await fake_client.ask_many(rows(), "Double it.", response_model=Double)
    task.cancel()
    assert turns > 0


async def test_a_job_of_too_many_rows_is_refused_before_one_is_asked(
    fake_client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("answerbus.client.job.ROWS_MAX", 5)

    with pytest.raises(ValueError, match="at most 5 rows: ask the rest as another job"):
        await fake_client.ask_many(({"n": n} for n in count()), "Double it.")

    assert not fake_client.requests


async def test_an_outcome_is_kept_until_its_row_has_it() -> None:
    outcomes, outcome = WorkflowOutcomes(), event("result/dep_bump")
    assert isinstance(outcome, Result)
    name, value = outcome.request_id, encode(outcome).value
    outcomes.add(outcome, value)

    assert outcomes.taken(name) == outcome
    assert outcomes.taken(name) is None
    waiting = asyncio.create_task(outcomes.wait(name))
    await asyncio.sleep(0)
    outcomes.add(outcome, value)
    assert await waiting is outcome
    assert outcomes.taken(name) is None
