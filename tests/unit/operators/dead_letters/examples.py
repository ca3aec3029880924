"""Dead letters, and what operators did about them, as they are in their topics."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from answerbus.dead_letter import DeadLetter
from answerbus.topics import DEAD_LETTERS, TOPIC_OF_KIND
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.worker.builders import NOW, body

EXAMPLES = Path(__file__).parents[4] / "contracts" / "examples"
JsonObject = dict[str, Any]


def example(kind: str, name: str) -> JsonObject:
    """A real event."""
    found: JsonObject = json.loads((EXAMPLES / kind / f"{name}.json").read_text())
    return found


def dead_letter_body(request_id: str = "r-1", workflow_id: str = "w-0", **more: Any) -> JsonObject:
    """A letter of a request that was tried once; `request` are further members of its request."""
    request = body(request_id, workflow_id, **more.pop("request", {}))
    return {
        "kind": "dead_letter",
        "dead_letter_id": f"{request_id}.dead-letter",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "cause": {"kind": "budget_exhausted", "which": "attempts"},
        "request": request,
        "raw": None,
        "origin": {"topic": "t", "partition": 0, "offset": 0, "timestamp": "2026-11-21T09:00:00Z"},
        "prior": [{"attempt": 1, "failure": {"kind": "unknown"}}],
        "account": {"id": workflow_id, "limit": {}, "spent": {"attempts": 1, "tokens": 10}},
        "round": 0,
        "at": at(0),
        "labels": request.get("labels", {}),
        **more,
    }


def dead_letter_event(*arguments: Any, **more: Any) -> DeadLetter:
    """The same as the codec reads it."""
    return DeadLetter.model_validate_json(json.dumps(dead_letter_body(*arguments, **more)))


def replayed_body(request_id: str = "r-1", round_: int = 1) -> JsonObject:
    return {
        "kind": "replayed",
        "dead_letter_id": f"{request_id}.dead-letter",
        "request_id": f"{request_id}.replay.{round_}",
        "round": round_,
        "by": "ops@acme",
        "reason": "prompt fixed",
        "at": at(60),
    }


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def stored(
    event: JsonObject | bytes | None,
    offset: int = 0,
    partition: int = 0,
) -> Stored:
    """In the topic of its kind; what has none, among the dead letters."""
    value = json.dumps(event).encode() if isinstance(event, dict) else event
    topic = TOPIC_OF_KIND[event["kind"]] if isinstance(event, dict) else DEAD_LETTERS
    return Stored(topic, partition, offset, 0, None, value, ())


def folded(*events: JsonObject | bytes | None) -> DeadLetterIndex:
    dead_letters = DeadLetterIndex()
    for offset, event in enumerate(events):
        dead_letters.take(summarize(stored(event, offset)))
    return dead_letters


def only(dead_letters: DeadLetterIndex) -> DeadLetterRow:
    (dead_letter,) = dead_letters
    return dead_letter
