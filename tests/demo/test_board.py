"""What the demo makes of events: its board, and its verdict."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from io import StringIO

import pytest
from rich.console import Console

from answerbus.budget import AccountState, Budget, Spent, Usage
from answerbus.dead_letter import DeadLetter, HostileSchema
from answerbus.event import Event
from answerbus.failure import Failure, Invalid, Problem, Throttled, TimedOut
from answerbus.outcome import ModelUsed, Origin, Refusal, Result
from answerbus.request import ContractId
from answerbus.step import Step
from answerbus.topics import TOPIC_OF_KIND
from infra.demo.board import Row, fold, outcome_text, retry_text, seconds
from infra.demo.cases import Case, cases
from infra.demo.closing import broken_promises, late_text, summary
from services.operators.records.decoded import DecodedRecord
from tests.unit.operators.runs.events import event as example

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
ASKED = Case("first", b"{}", "r-1", "w-1", "plan_proposal.v1")
BROKEN = Case("broken", b"{", None, None, "-")
AGAIN = Case("first, again", b"{}", "r-1", "w-1", "plan_proposal.v1", is_duplicate=True)
ROWS = [Row(ASKED, 3, 0), Row(BROKEN, 0, 0), Row(AGAIN, 3, 1)]


def result(request_id: str = "r-1") -> Result[object]:
    return Result[object](
        event_id=f"{request_id}.result",
        request_id=request_id,
        workflow_id="w-1",
        schema=ContractId(name="plan_proposal", version=1, digest="sha256:" + "0" * 64),
        answer={"kind": "dep_bump"},
        attempt=1,
        model=ModelUsed(profile="default", provider="test", model="test", dialect="test"),
        usage=Usage(input_tokens=300, output_tokens=40),
        account=AccountState(id="w-1", limit=Budget(), spent=Spent(attempts=1)),
        requested_at=NOW,
        finished_at=NOW + timedelta(seconds=2.5),
    )


def dead_letter(partition: int, offset: int, request_id: str | None = None) -> DeadLetter:
    return DeadLetter(
        dead_letter_id="letter",
        request_id=request_id,
        workflow_id=None,
        cause=HostileSchema(),
        request=None,
        raw=None,
        origin=Origin(topic="requests", partition=partition, offset=offset, timestamp=NOW),
        account=None,
        at=NOW + timedelta(seconds=1),
    )


def seen(event: Event) -> DecodedRecord:
    return DecodedRecord(TOPIC_OF_KIND[event.kind], 3, 7, NOW, event)


def board(*events: Event) -> Sequence[Row]:
    return reduce(fold, map(seen, events), ROWS)


def test_an_outcome_ends_the_row_that_it_is_about() -> None:
    first, broken, again = board(result(), dead_letter(0, 0))

    assert (first.text, first.is_done, seconds(first.terminals[0])) == (
        "result: dep_bump",
        True,
        2.5,
    )
    assert (broken.text, seconds(broken.terminals[0])) == ("dead letter: hostile_schema", 1.0)
    assert again == ROWS[2]
    assert again.is_done


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            Invalid(problems=(Problem.of("/diff", "bad_hunk", "a hunk"),)),
            "again: /diff bad_hunk",
        ),
        (Throttled(retry_after_s=6.0), "again in 6 s: throttled"),
        (Throttled(retry_after_s=None), "again: throttled"),
        (TimedOut(after_s=60.0), "again: timed_out"),
    ],
)
def test_a_retry_says_why(failure: Failure, text: str) -> None:
    assert retry_text(failure) == text


def test_a_step_says_which_tools_it_has_called() -> None:
    step = example("step/calls")
    assert isinstance(step, Step)
    called = step.model_copy(update={"request_id": "r-1", "n": 2})
    first, *_ = board(called)

    assert first.text == f"step 2: {', '.join(call.tool for call in step.calls)}"
    assert not first.is_done
    assert board(called, result())[0].text == "result: dep_bump"


def test_what_a_model_writes_cannot_command_the_terminal() -> None:
    answer = result().model_copy(update={"answer": {"kind": "\x1b[2Jgone"}})

    assert outcome_text(answer) == r"result: \u001b[2Jgone"


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([result(), dead_letter(0, 0)], []),
        ([result()], ["broken has 0 terminal events instead of 1"]),
        (
            [result(), result(), dead_letter(0, 0)],
            ["first has 2 terminal events instead of 1"],
        ),
        (
            [result(), dead_letter(0, 0), dead_letter(3, 1, "r-1")],
            ["first, again has 1 terminal events instead of 0"],
        ),
        (
            [result(), dead_letter(0, 0), result("r-9")],
            ["the result of r-9 answers nothing"],
        ),
    ],
    ids=["kept", "lost", "twice", "duplicate answered", "answer to no request"],
)
def test_the_verdict_counts_terminal_events(events: Sequence[Event], wrong: list[str]) -> None:
    assert broken_promises(ROWS, map(seen, events)) == wrong


def test_what_is_late_is_named_with_the_limit_and_a_likely_cause() -> None:
    assert late_text(["first", "second"]) == (
        "no outcome within 300 s: first, second. Is this machine busy? The model shares its cores."
    )
    assert late_text([]) == "the workers' offsets are not committed in time"


def test_the_summary_counts_each_kind_of_outcome() -> None:
    output = StringIO()
    console = Console(file=output, width=200)
    summary(console, board(result(), dead_letter(0, 0)), [], 1.5)
    counted = output.getvalue()

    assert "3 records, 1 of them a duplicate: 1 result, 1 dead letter; " in counted
    summary(console, board(result(), result()), [], 1.5)
    assert "a duplicate: 2 results; " in output.getvalue()


def test_the_demo_publishes_what_it_is_meant_to_show() -> None:
    published = cases()
    asked = {case.name: case.asked for case in published}

    assert len(published) >= 13
    assert len({case.request_id for case in published if not case.is_duplicate}) == len(asked) - 1
    assert {*asked.values()} == {
        "plan_proposal.v1",
        "plan_proposal.v9",
        "inline build_failure",
        "inline severity",
        "inline remote",
        "text",
        "text, helper",
        "-",
    }
    assert [case.name for case in published if case.asked == "-"] == [
        "undecodable",
        "not-a-request",
    ]
    assert [case.name for case in published if case.is_duplicate] == ["dep-bump, again"]


def test_a_refusal_names_who_declines() -> None:
    reported = result().model_dump(exclude={"kind", "answer", "event_id"}, by_alias=True)
    refusal = Refusal(event_id="r-1.refusal", by="provider", reason="no", **reported)

    assert outcome_text(refusal) == "refusal by the provider"
