"""Answers of models: what is accepted satisfies the schema, by a second, independent validator."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from jsonschema import Draft202012Validator

from answerbus.contract import Contract
from answerbus.failure import Invalid, Malformed
from answerbus.registry import Registry
from services.worker.core.attempt.check import TooLarge, check
from services.worker.core.schema.resolved import Accepted, AcceptedStep, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from tests.corpora import own_cases
from tests.fuzz.target import Target

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples" / "result"
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
SCHEMAS = SchemaCache(Registry())


@dataclass(frozen=True, slots=True)
class Judged:
    """A contract, and the second validator of its published schema."""

    contract: Contract[Any]
    oracle: Draft202012Validator


CONTRACTS = {c.name: Judged(c, Draft202012Validator(c.schema())) for c in Registry()}


def check_answer(data: bytes) -> None:
    """The first line names the contract; in every dialect a valid value or a typed failure."""
    name, _, text = data.partition(b"\n")
    judged = CONTRACTS.get(name.decode("latin-1"))
    if judged is None:
        return
    content = text.decode(errors="surrogateescape")
    for dialect in DIALECTS:
        compiled = SCHEMAS.compiled(judged.contract.ref, dialect)
        assert not isinstance(compiled, Unusable)
        match check(content, *compiled):
            case Accepted(answer=answer):
                judged.oracle.validate(json.loads(json.dumps(answer)))
            case Malformed() | Invalid() | TooLarge() as failed:
                assert not isinstance(failed, Invalid) or failed.problems
            case AcceptedStep():
                raise AssertionError("only a run takes steps")


def seeds() -> Sequence[bytes]:
    examples = [json.loads(path.read_text("utf-8")) for path in sorted(EXAMPLES.glob("*.json"))]
    named = [(event["schema"].get("name"), json.dumps(event["answer"])) for event in examples]
    named += [(case.get("contract"), case["raw"]) for case in own_cases().model_outputs()]
    return [
        f"{name}\n{text}".encode(errors="surrogatepass")
        for name, text in named
        if name in CONTRACTS
    ]


TARGET = Target("answers", check_answer, seeds)
