"""Records as the topics hold them, made of the committed examples, for what the console folds."""

import json
from pathlib import Path
from typing import Any

from answerbus.topics import TOPIC_OF_KIND
from services.operators.records.stored import Stored

EXAMPLES = Path(__file__).parents[3] / "contracts" / "examples"
NOON_MS = 1_795_262_400_000  # 2026-11-21 12:00 UTC
MINUTE_MS = 60_000


def body_of(example: str, **changes: Any) -> dict[str, Any]:
    """An example such as `result/dep_bump`, with other values where they are named."""
    body: dict[str, Any] = json.loads((EXAMPLES / f"{example}.json").read_text())
    return {**body, **changes}


def stored(
    example: str, at_ms: int = NOON_MS, offset: int = 0, partition: int = 0, **changes: Any
) -> Stored:
    body = body_of(example, **changes)
    topic = TOPIC_OF_KIND[body["kind"]]
    value = json.dumps(body).encode()
    return Stored(topic, partition, offset, at_ms, b"key", value, ())
