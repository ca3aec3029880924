"""The costliest inputs that searches have found, with what they took when they were."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "worst.json"
OF_EACH_MAX = 4


def lines() -> list[dict[str, Any]]:
    """As they are kept, one to a line."""
    texts = PATH.read_text("utf-8").splitlines() if PATH.exists() else []
    return [json.loads(text) for text in texts]


def write(found: Sequence[dict[str, Any]]) -> None:
    """Keep these beside those that were found before, the costliest of each target."""
    every = {json.dumps(line["recipe"]): line for line in [*lines(), *found]}
    by_cost = sorted(every.values(), key=lambda line: (line["target"], -line["share"]))
    counts: dict[str, int] = {}
    kept = list[dict[str, Any]]()
    for line in by_cost:
        counts[line["target"]] = counts.get(line["target"], 0) + 1
        if counts[line["target"]] <= OF_EACH_MAX:
            kept.append(line)
    texts = [json.dumps(line, ensure_ascii=False) for line in kept]
    PATH.write_text("\n".join(texts) + "\n", encoding="utf-8")
