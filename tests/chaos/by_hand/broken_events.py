"""G7 and G8 broken: events that are none, and answers that fail their schema."""

import json
from dataclasses import replace

from tests.chaos.audit.canonical import digest
from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import attempted, breaks
from tests.chaos.by_hand.history_builder import HistoryBuilder
from tests.chaos.by_hand.made import Json


@breaks("G7", "results-0-0", "no JSON object")
def no_event(builder: HistoryBuilder) -> None:
    builder.put("results", 0, b"w", b"an answer")


@breaks("G7", "ledger-0-0", "no JSON object")
def null_in_the_ledger(builder: HistoryBuilder) -> None:
    builder.put("ledger", 0, b"account:w", None)


@breaks("G7", "results-0-0", "$.notes")
def result_against_its_schema(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", notes="no list")


@breaks("G7", "results-1-0", "belongs into partition 0", partitions=2)
def result_in_another_lane(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", partition=1)


@breaks("G7", "results-0-0", "its key is")
def result_under_another_key(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.work("r")
    builder.records = [
        replace(record, key=b"r") if record.topic == "results" else record
        for record in builder.records
    ]


@breaks("G8", "r", "fails the schema")
def text_that_is_none(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", answer=7)


@breaks("G8", "r", "it names the schema")
def another_schema(builder: HistoryBuilder) -> None:
    attempted(builder)
    builder.end("r", schema={"kind": "text", "digest": made.DIGEST})


@breaks("G8", "r", "$.n")
def inline_answer_against_its_schema(builder: HistoryBuilder) -> None:
    _inline(builder, {"n": -1}, wrapped=False)


@breaks("G8", "r", "$.n")
def wrapped_output_against_its_schema(builder: HistoryBuilder) -> None:
    answer = {"output": {"n": -1}, "success": True, "notes": [], "failure_reason": None}
    _inline(builder, answer, wrapped=True)


@breaks("G8", "r", "neither a success nor an honest failure")
def wrapped_failure_without_a_reason(builder: HistoryBuilder) -> None:
    answer: Json = {"output": None, "success": False, "notes": [], "failure_reason": None}
    _inline(builder, answer, wrapped=True)


@breaks("G8", "r", "the answer fails the schema")
def contract_answer_against_its_schema(builder: HistoryBuilder) -> None:
    ref = {"kind": "contract", "name": "plan_proposal", "version": 1}
    result = json.loads((made.EXAMPLES / "result" / "dep_bump.json").read_text())
    del result["answer"]["manifest_path"]
    builder.ask("r", answer_schema=ref)
    builder.spend("r")
    builder.call("r")
    builder.settle("r")
    builder.end("r", schema=result["schema"], answer=result["answer"])


@breaks("G8", "r", "nobody asked for unvalidated results")
def unvalidated_against_policy(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.settle("r", outcome="unvalidated_result", failure="invalid")
    builder.end("r", "unvalidated_result")


def _inline(builder: HistoryBuilder, answer: Json, *, wrapped: bool) -> None:
    schema = {"properties": {"n": {"type": "integer", "minimum": 0}}}
    ref = {"kind": "inline", "name": "number", "wrapped": wrapped, "json_schema": schema}
    builder.ask("r", answer_schema=ref)
    builder.spend("r")
    builder.call("r")
    builder.settle("r")
    named = {"kind": "inline", "name": "number", "wrapped": wrapped, "digest": digest(schema)}
    builder.end("r", schema=named, answer=answer)
