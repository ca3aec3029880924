"""Schemas and valid answers to measure with: the contracts' own, and those of the corpus."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef
from tests.corpora import FOLDER, corpora

_EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples" / "result"


@dataclass(frozen=True, slots=True)
class Sample:
    """A schema as a request asks for it, as JSON, and answers that satisfy it."""

    ref: SchemaRef
    schema: Any
    answers: tuple[JsonValue, ...]


def contracts() -> list[Sample]:
    """The contracts that ship, with the answers of their examples as a model writes them."""
    answers: dict[str, list[JsonValue]] = {}
    for file in sorted(_EXAMPLES.glob("*.json")):
        event = json.loads(file.read_text(encoding="utf-8"))
        named = event["schema"]
        if named["kind"] == "contract":
            answers.setdefault(named["name"], []).append(_asked(named["name"], event["answer"]))
    return [
        Sample(contract.ref, contract.asked_schema(), tuple(answers.get(contract.name, ())))
        for contract in Registry()
    ]


def real_world(count: int) -> list[Sample]:
    """The first schemas of the corpus with their valid instances; none where it is absent."""
    if not FOLDER.is_dir():
        return []
    return [
        Sample(
            InlineRef(name="sample", wrapped=False, json_schema=case["schema"]),
            case["schema"],
            tuple(case["valid"]),
        )
        for case in list(corpora().schemas())[:count]
    ]


def _asked(name: str, answer: Any) -> JsonValue:
    """An example is what is published; a model also says why."""
    return {**answer, "rationale": "It is patched there."} if name == "plan_proposal" else answer
