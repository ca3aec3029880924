"""Schemas of callers: refused with a typed cause, or compiled in every dialect, in bounded time."""

import json
from collections.abc import Sequence
from typing import get_args

from pydantic import ValidationError

from answerbus import json_text
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.corpora import own_cases, raw
from tests.cpu_time import cpu_time
from tests.fuzz.target import Target

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
CPU_S_MAX = 5.0  # of all dialects together; instrumented code is several times slower
SEED_BYTES_MAX = 4096
REGISTRY = Registry([])


def check(data: bytes) -> None:
    parsed = json_text.parse(data)
    if not isinstance(parsed, json_text.Parsed) or not isinstance(parsed.value, dict | bool):
        return
    try:
        ref = InlineRef(name="fuzzed", wrapped=False, json_schema=parsed.value)
    except ValidationError:
        return  # no request can carry it
    with cpu_time() as cpu:
        _ends_typed(resolve(ref, REGISTRY))
    assert cpu.is_below(CPU_S_MAX)


def _ends_typed(asked: ResolvedSchema | Unusable) -> None:
    if isinstance(asked, Unusable):
        assert len(asked.cause.model_dump_json()) < 64 * 1024
        return
    for dialect in DIALECTS:
        compiled = compile_for(dialect, asked)
        assert isinstance(compiled, WireSchema | Unusable)
        if isinstance(compiled, WireSchema):
            json.loads(compiled.text or "null")
            asked.read(None)


def seeds() -> Sequence[bytes]:
    own = [raw(case) for case in own_cases().hostile_schemas()]
    contracts = [json.dumps(contract.schema()).encode() for contract in Registry()]
    return [text for text in (*own, *contracts) if len(text) <= SEED_BYTES_MAX]


TARGET = Target("schemas", check, seeds)
