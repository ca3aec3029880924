"""What a watcher sees of each record, and which ones are wanted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from answerbus.envelope import Undecodable, decode
from answerbus.event import Event
from answerbus.failure import Problem
from answerbus.outcome import Refusal
from answerbus.topics import DEAD_LETTERS, RETRIES, TOPIC_OF_KIND
from services.commands.watch import TOPICS
from services.operators.records.decoded import DecodedRecord
from services.operators.records.event_data import as_data
from services.operators.records.event_line import STYLES, line_of
from services.operators.records.record_filter import RecordFilter
from services.operators.records.stored import RetryEnded

EXAMPLES = Path(__file__).parents[4] / "contracts/examples"
AT = datetime(2026, 11, 21, 9, tzinfo=UTC)
REQUEST_ID = "0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10"
NO_EVENT = DecodedRecord(
    DEAD_LETTERS, 3, 17, AT, Undecodable((Problem.of("/kind", "missing", "Field required"),), "r-9")
)
ENDED = DecodedRecord(RETRIES, 3, 18, AT, RetryEnded("r-8", None))


def example(name: str) -> Event:
    event = decode((EXAMPLES / f"{name}.json").read_bytes())
    assert not isinstance(event, Undecodable)
    return event


def seen(name: str) -> DecodedRecord:
    event = example(name)
    return DecodedRecord(TOPIC_OF_KIND[event.kind], 7, 4711, AT, event)


WATCHED = [
    seen(f"{path.parent.name}/{path.stem}")
    for path in sorted(EXAMPLES.rglob("*.json"))
    if TOPIC_OF_KIND[path.parent.name] in TOPICS
] + [NO_EVENT, ENDED]


def words(record: DecodedRecord) -> str:
    """The line without its time, that of the record."""
    return line_of(record).plain[len("09:00:00Z ") :]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "result/dep_bump",
            "result             order-4711 "
            + REQUEST_ID
            + " plan_proposal.v1 dep_bump, attempt 2, "
            "gpt-5-mini-2025-08-07, 812 + 64 tokens, $0.0003, 2.8 s ▰▰▱",
        ),
        (
            "result/text",
            (
                "result             greeting-1 0199e7a4-6c1f-7000-8000-000000000001 text "
                "attempt 1, gpt-5-mini-2025-08-07, 2.8 s ▰▱▱"
            ),
        ),
        (
            "refusal/by_model",
            "refusal            order-4711 " + REQUEST_ID + " plan_proposal.v1 by the model: The "
            "advisory has no fixed release. (2.8 s ▰▱▱)",
        ),
        (
            "dead_letter/budget_exhausted_tokens",
            "dead_letter        order-4711 "
            + REQUEST_ID
            + " plan_proposal.v1 The answer was cut at 4096 tokens (once). "
            "The workflow's budget of tokens has too little left for another call. (9.3 s ▰▰▱)",
        ),
        (
            "dead_letter/undecodable_null",
            (
                "dead_letter        - answerbus.requests.v1-7-4711.dead-letter The record is an "
                "invalid request: all of it: a value with a JSON object (null_value) (9.3 s)"
            ),
        ),
        (
            "replayed/unchanged",
            (
                f"replayed           order-4711 {REQUEST_ID}.replay.2 as {REQUEST_ID}.replay.2 by "
                "ops@acme.example: the provider is well again"
            ),
        ),
        (
            "dismissed/dismissed",
            (
                f"dismissed          order-4711 {REQUEST_ID}.dead-letter by ops@acme.example: "
                "customer gone"
            ),
        ),
        (
            "unvalidated_result/invalid",
            (
                "unvalidated_result api-explorer-17 0199e7a4-6c1f-7a31-9d52-000000000002 inline "
                "search_endpoint 1 problems, attempt 3, gpt-5-mini-2025-08-07, 812 + 64 tokens, "
                "$0.0003, 2.8 s ▰▰▰"
            ),
        ),
    ],
)
def test_a_line_says_what_matters_of_its_kind(name: str, expected: str) -> None:
    assert words(seen(name)) == expected


def test_what_is_no_event_has_a_line_too() -> None:
    assert words(NO_EVENT) == (
        "undecodable        - r-9 dead-letters-3@17 /kind: Field required (missing)"
    )
    assert words(ENDED) == "retry_ended        - r-8 "


def test_a_retry_says_which_attempt_is_next_and_why() -> None:
    line = words(seen("retry_request/invalid"))

    assert line.startswith(
        f"retry_request      order-4711 {REQUEST_ID} plan_proposal.v1 attempt 2 in 0.7 s"
    )
    assert line.endswith(
        "since the answer breaks its schema: /manifest_path: a relative path below the working "
        "tree (escapes_sandbox) (3.2 s ▰▱▱)"
    )


@pytest.mark.parametrize("record", WATCHED, ids=lambda record: f"{record.kind}-{record.offset}")
def test_every_record_has_one_line_a_style_and_data(record: DecodedRecord) -> None:
    console = Console(width=10_000, record=True, file=None, quiet=True)
    console.print(line_of(record))

    assert "\n" not in line_of(record).plain
    assert record.kind in STYLES
    assert as_data(record)["kind"] == record.kind


def test_no_text_from_outside_commands_the_terminal() -> None:
    refusal = example("refusal/by_provider")
    assert isinstance(refusal, Refusal)
    hostile = refusal.model_copy(
        update={"reason": "\x1b[2Jgone\r\nnext [bold]line", "workflow_id": "w\x1b\x07"}
    )

    line = words(DecodedRecord(TOPIC_OF_KIND["refusal"], 0, 0, AT, hostile))

    assert "\x1b" not in line
    assert "\x07" not in line
    assert r"\u001b[2Jgone\u000d\nnext [bold]line" in line


def test_data_are_the_event_as_it_is_on_the_wire() -> None:
    assert as_data(seen("lane/lane")) == {
        "topic": "ledger",
        "partition": 7,
        "offset": 4711,
        "at": "2026-11-21T09:00:00.000Z",
        "kind": "lane",
        "event": {
            "kind": "lane",
            "v": 1,
            "partitions": 12,
            "openings_without_progress": 0,
            "worker": "worker-2",
            "at": "2026-11-21T08:59:58.000Z",
            "group": "answerbus.worker",
            "earlier": [],
            "moving_to": None,
            "suspects": [],
            "suspect_record": None,
            "watched": None,
        },
    }
    assert as_data(NO_EVENT)["event"] == {
        "problems": [{"path": "/kind", "code": "missing", "expected": "Field required"}],
        "request_id": "r-9",
        "workflow_id": None,
    }


def names(wanted: RecordFilter) -> set[str]:
    return {record.kind for record in WATCHED if wanted.admits(record)}


def test_nothing_said_wants_everything() -> None:
    assert all(RecordFilter().admits(record) for record in WATCHED)


def test_kinds_workflows_and_contracts_narrow_it_down() -> None:
    assert names(RecordFilter(kinds=frozenset({"refusal", "undecodable"}))) == {
        "refusal",
        "undecodable",
    }
    assert names(RecordFilter(workflow_id="ticket-88213")) == {"result"}
    assert names(RecordFilter(contract="plan_proposal")) == names(
        RecordFilter(contract="plan_proposal.v1")
    )
    assert names(RecordFilter(contract="plan_proposal")) == {
        "result",
        "refusal",
        "retry_request",
        "dead_letter",
    }
    assert names(RecordFilter(contract="search_endpoint")) == {"result", "unvalidated_result"}
    assert names(RecordFilter(contract="text")) == {"result"}
    assert names(RecordFilter(contract="plan_proposal.v2")) == set()
    assert names(RecordFilter(workflow_id="ticket-88213", contract="text")) == set()
