"""G7 and G8 broken: events that are none, and answers that fail their schema."""

import json
from dataclasses import replace

from tests.chaos.audit.canonical import digest
from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import attempted, breaks
from tests.chaos.by_hand.made import Json
from tests.chaos.by_hand.story import Story


@breaks("G7", "results-0-0", "no JSON object")
def no_event(story: Story) -> None:
    story.put("results", 0, b"w", b"an answer")


@breaks("G7", "ledger-0-0", "no JSON object")
def null_in_the_ledger(story: Story) -> None:
    story.put("ledger", 0, b"account:w", None)


@breaks("G7", "results-0-0", "$.notes")
def result_against_its_schema(story: Story) -> None:
    attempted(story)
    story.end("r", notes="no list")


@breaks("G7", "results-1-0", "belongs into partition 0", partitions=2)
def result_in_another_lane(story: Story) -> None:
    attempted(story)
    story.end("r", partition=1)


@breaks("G7", "results-0-0", "its key is")
def result_under_another_key(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.records = [
        replace(record, key=b"r") if record.topic == "results" else record
        for record in story.records
    ]


@breaks("G8", "r", "fails the schema")
def text_that_is_none(story: Story) -> None:
    attempted(story)
    story.end("r", answer=7)


@breaks("G8", "r", "it names the schema")
def another_schema(story: Story) -> None:
    attempted(story)
    story.end("r", schema={"kind": "text", "digest": made.DIGEST})


@breaks("G8", "r", "$.n")
def inline_answer_against_its_schema(story: Story) -> None:
    _inline(story, {"n": -1}, wrapped=False)


@breaks("G8", "r", "$.n")
def wrapped_output_against_its_schema(story: Story) -> None:
    answer = {"output": {"n": -1}, "success": True, "notes": [], "failure_reason": None}
    _inline(story, answer, wrapped=True)


@breaks("G8", "r", "neither a success nor an honest failure")
def wrapped_failure_without_a_reason(story: Story) -> None:
    answer: Json = {"output": None, "success": False, "notes": [], "failure_reason": None}
    _inline(story, answer, wrapped=True)


@breaks("G8", "r", "the answer fails the schema")
def contract_answer_against_its_schema(story: Story) -> None:
    ref = {"kind": "contract", "name": "plan_proposal", "version": 1}
    result = json.loads((made.EXAMPLES / "result" / "dep_bump.json").read_text())
    del result["answer"]["manifest_path"]
    story.ask("r", answer_schema=ref)
    story.spend("r")
    story.call("r")
    story.settle("r")
    story.end("r", schema=result["schema"], answer=result["answer"])


@breaks("G8", "r", "nobody asked for unvalidated results")
def unvalidated_uninvited(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r")
    story.settle("r", outcome="unvalidated_result", failure="invalid")
    story.end("r", "unvalidated_result")


def _inline(story: Story, answer: Json, *, wrapped: bool) -> None:
    schema = {"properties": {"n": {"type": "integer", "minimum": 0}}}
    ref = {"kind": "inline", "name": "number", "wrapped": wrapped, "json_schema": schema}
    story.ask("r", answer_schema=ref)
    story.spend("r")
    story.call("r")
    story.settle("r")
    named = {"kind": "inline", "name": "number", "wrapped": wrapped, "digest": digest(schema)}
    story.end("r", schema=named, answer=answer)
