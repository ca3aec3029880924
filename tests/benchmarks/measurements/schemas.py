"""Schemas: what it takes to compile one, to find it again, and to validate an answer with it."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, get_args

from jsonschema.validators import validator_for
from pydantic import JsonValue
from pydantic_ai.exceptions import UserError
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer
from pydantic_core import to_json

from answerbus.registry import Registry
from answerbus.request import SchemaRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName, compile_for
from services.worker.dialects.schema_cache import SchemaCache
from tests.benchmarks.arithmetic import percentile
from tests.benchmarks.figures import Figure
from tests.benchmarks.rig import Rig
from tests.benchmarks.schema_cases import Sample, contracts, real_world
from tests.benchmarks.size import Size

NAME = "schemas"
REGISTRY = Registry()
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
TRANSFORMERS = {
    "OpenAI": OpenAIJsonSchemaTransformer,
    "Anthropic": AnthropicJsonSchemaTransformer,
    "Google": GoogleJsonSchemaTransformer,
}
ROUNDS = 5  # of each compilation; the middle one counts
VALIDATION_S = 2.0  # CPU time for each validator, at least one round over all answers


@dataclass(frozen=True, slots=True)
class Timed:
    """One compilation: its CPU time in seconds, or None if the schema was refused."""

    cold_s: float | None
    cached_s: float | None = None


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """The contracts that ship and, where the corpora are, real-world schemas."""
    cases = {"contracts": contracts(), "real-world schemas": real_world(size.schemas)}
    for case, samples in cases.items():
        if samples:
            rig.say(f"{len(samples)} {case}")
            yield from _compiling(case, samples)
            yield from _validating(case, samples)
        else:
            rig.say(f"no {case}: set CORPORA_DIR to the folder of the corpora")


def _compiling(case: str, samples: Sequence[Sample]) -> Iterator[Figure]:
    fields = {"schemas": len(samples)}
    authority = [_authority(sample.ref) for sample in samples]
    yield from _compiled(case, "product, authority", authority, fields)
    independent = [Timed(_cpu_s(partial(_jsonschema, sample.schema))) for sample in samples]
    yield from _compiled(case, "jsonschema", independent, fields)
    for dialect in DIALECTS:
        timed = [_into_dialect(sample.ref, dialect) for sample in samples]
        yield from _compiled(case, f"product, {dialect}", timed, fields)
    for name, transformer in TRANSFORMERS.items():
        timed = [_transformed(transformer, sample.schema) for sample in samples]
        yield from _compiled(case, f"pydantic-ai, {name}", timed, fields)


def _compiled(
    case: str, who: str, timed: Sequence[Timed], reply: dict[str, Any]
) -> Iterator[Figure]:
    cold = [found.cold_s * 1e3 for found in timed if found.cold_s is not None]
    cached = [found.cached_s * 1e6 for found in timed if found.cached_s is not None]
    yield Figure(NAME, case, who, "carried", 100 * len(cold) / len(timed), "%", parameters=reply)
    yield Figure(NAME, case, who, "compile, p50", percentile(cold, 0.5), "ms", parameters=reply)
    yield Figure(NAME, case, who, "compile, p99", percentile(cold, 0.99), "ms", parameters=reply)
    if cached:
        found = percentile(cached, 0.5)
        yield Figure(NAME, case, who, "from the cache, p50", found, "µs", parameters=reply)


def _authority(ref: SchemaRef) -> Timed:
    if isinstance(resolve(ref, REGISTRY), Unusable):
        return Timed(None)
    return Timed(_cpu_s(partial(resolve, ref, REGISTRY)))


def _into_dialect(ref: SchemaRef, dialect: DialectName) -> Timed:
    """The wire schema alone: the authority, which it is made of, is timed by itself."""
    asked = resolve(ref, REGISTRY)
    if not isinstance(asked, ResolvedSchema) or isinstance(compile_for(dialect, asked), Unusable):
        return Timed(None)
    cache = SchemaCache(REGISTRY)
    cache.compiled(ref, dialect)
    return Timed(
        _cpu_s(lambda: compile_for(dialect, asked)), _cpu_s(lambda: cache.compiled(ref, dialect))
    )


def _transformed(transformer: Callable[..., Any], schema: Any) -> Timed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it narrows what the schema allows
        try:
            transformer(schema, strict=True).walk()
        except (UserError, ValueError, AssertionError, KeyError, TypeError, AttributeError):
            return Timed(None)
        return Timed(_cpu_s(lambda: transformer(schema, strict=True).walk()))


def _jsonschema(schema: Any) -> Any:
    kind = validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def _cpu_s(act: Callable[[], Any]) -> float:
    """The median CPU time of this thread for `act`."""
    took = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        act()
        took.append(time.thread_time() - began)
    return median(took)


def _validating(case: str, samples: Sequence[Sample]) -> Iterator[Figure]:
    """Of parsed answers that are valid, by the product and by jsonschema in turns."""
    ours: list[tuple[Callable[[JsonValue], Any], JsonValue]] = []
    theirs: list[tuple[Callable[[JsonValue], Any], JsonValue]] = []
    for sample in samples:
        asked = resolve(sample.ref, REGISTRY)
        if isinstance(asked, ResolvedSchema):
            independent = _jsonschema(sample.schema)
            ours += [(asked.read, answer) for answer in sample.answers]
            theirs += [(independent.is_valid, answer) for answer in sample.answers]
    if not ours:
        return
    kib = sum(len(to_json(answer)) for _, answer in ours) / 1024
    fields = {"answers": len(ours), "kib": round(kib, 1)}
    for who, checks in (("product, authority", ours), ("jsonschema", theirs)):
        per_kib = _round_s(checks) * 1e6 / kib
        yield Figure(NAME, case, who, "validate a KiB", per_kib, "µs", parameters=fields)


def _round_s(checks: Sequence[tuple[Callable[[JsonValue], Any], JsonValue]]) -> float:
    """The mean CPU time of a round over all answers."""
    rounds, began = 0, time.thread_time()
    while rounds == 0 or time.thread_time() - began < VALIDATION_S:
        for check, answer in checks:
            check(answer)
        rounds += 1
    return (time.thread_time() - began) / rounds
