"""Questions for real-world schemas: thirty of the corpus, chosen by a rule, four ways of asking."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus.registry import Registry
from answerbus.request import Fact, InlineRef
from services.worker.core.guard.hostile import text_bytes
from services.worker.core.schema.resolved import Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache
from tests.model_survey.questions import Question

SEED = 20261121
SCHEMAS = 30
SCHEMA_BYTES = range(200, 1_500)  # the model reads some 200 tokens a second
INSTANCE_BYTES_MAX = 400
DIALECT: DialectName = "llama_cpp"
_COPY = "Write what the fact `record` holds, as data of the form that is asked for."
_INVENT = "Make up one short and plausible example of the data that is asked for."
_MEND = "The fact `record` breaks the rules of its form. Write it again so that it obeys them."


def chosen(cases: Iterable[Any]) -> list[Any]:
    """The schemas that fit the sizes, have both kinds of instances, and go into the dialect."""
    cache = SchemaCache(Registry())
    fitting = [case for case in cases if _fits(case, cache)]
    return sorted(fitting, key=_draw)[:SCHEMAS]


def questions(cases: Iterable[Any]) -> Iterator[Question]:
    """All of them, in an order that never changes."""
    for case in chosen(cases):
        valid, invalid = _small(case, "valid")[0], _small(case, "invalid")[0]
        ways: tuple[tuple[str, bool, tuple[Fact, ...]], ...] = (
            (_COPY, False, (_record(valid),)),
            (_COPY, True, (_record(valid),)),
            (_INVENT, False, ()),
            (_MEND, True, (_record(invalid),)),
        )
        for number, (instructions, wrapped, facts) in enumerate(ways):
            yield Question(
                id=f"inline-{_draw(case)[:12]}-{number}",
                part="inline",
                group=case["id"],
                asked=InlineRef(name="record", wrapped=wrapped, json_schema=case["schema"]),
                instructions=instructions,
                facts=facts,
            )


def _fits(case: Any, cache: SchemaCache) -> bool:
    if text_bytes(case["schema"]) not in SCHEMA_BYTES:
        return False
    if not (_small(case, "valid") and _small(case, "invalid")):
        return False
    return all(
        not isinstance(cache.compiled(ref, DIALECT), Unusable)
        for ref in (
            InlineRef(name="record", wrapped=wrapped, json_schema=case["schema"])
            for wrapped in (False, True)
        )
    )


def _small(case: Any, kind: str) -> list[JsonValue]:
    """Objects that the model can read and write in a few seconds."""
    found = [*case[kind], *case.get("generated", {}).get(kind, [])]
    return [
        instance
        for instance in found
        if isinstance(instance, dict) and 2 < len(to_json(instance)) <= INSTANCE_BYTES_MAX
    ]


def _draw(case: Any) -> str:
    return hashlib.sha256(f"{SEED}:{case['id']}".encode()).hexdigest()


def _record(value: JsonValue) -> Fact:
    return Fact(name="record", value=value)
