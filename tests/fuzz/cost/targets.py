"""What the search for cost works on: each kind of input as an event loop takes it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, get_args

from aiokafka import ConsumerRecord
from pydantic import JsonValue, ValidationError

from answerbus import json_text
from answerbus.answers.unified_diff import named_paths
from answerbus.envelope import decode
from answerbus.limits import (
    ANSWER_BYTES_MAX,
    DIFF_BYTES_MAX,
    INLINE_SCHEMA_BYTES_MAX,
    RECORD_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_VALUES_MAX,
    TOOL_RESULT_BYTES_MAX,
)
from answerbus.masking import Mask
from answerbus.registry import Registry
from answerbus.request import InlineRef, Request
from answerbus.topics import LEDGER, REQUESTS, TOPIC_OF_KIND, Topic
from services.console.state.console_state import ConsoleState
from services.console.views.marked_json import difference, marked_json
from services.operators.dead_letters.edit import Edits, edited, edits_of
from services.operators.records.prompt_text import PromptText
from services.operators.records.stored import Stored
from services.text.digest import canonical_digest
from services.tools.mcp.bounds import MESSAGE_BYTES_MAX, VALUES_MAX, is_costly, values_in
from services.tools.mcp.stdio import parsed as parsed_message
from services.worker.adapters.costly_work.pickled import dumps, loads
from services.worker.adapters.kafka.arrivals import arrival
from services.worker.adapters.providers import masked
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.core.attempt.check import check
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.turns import Fence
from services.worker.core.guard.effort import LOOP_NS, TooMuchWorkError, sparing
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.core.run.tool_report import read_report
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema
from services.worker.core.schema.validator import compile_schema, too_large
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache, compiled_for
from services.worker.lane.opening import RecoveredState
from services.worker.planning.schema_compiler import IN_PLACE_CHARS_MAX, is_small
from services.worker.ports.kafka import StoredRecord
from tests.cost.budget import ANYBODY, MIB, WORKERS, Budget
from tests.fuzz.cost import agents, seeds
from tests.fuzz.cost.recipe import Recipe
from tests.fuzz.replies import READERS
from tests.fuzz.stored import KINDS, TOPICS
from tests.unit.worker import builders

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
REGISTRY = Registry([])
TOKENS = 77
STORED_BYTES_MAX = 128 * 1024  # see WORKERS
STORED: Mapping[str, Topic] = MappingProxyType(
    {kind: TOPICS.get(choice, LEDGER) for choice, kinds in KINDS.items() for kind in kinds}
)
PIECES_MAX = 2_000  # facts and messages of one request
MASK = Mask(["sk-4f9a8b7c6d5e4f3a2b1c0d9e", "hunter2hunter2"])
REQUEST: Mapping[str, JsonValue] = MappingProxyType(builders.body())
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Target:
    """`work_on` prepares what is measured then; None for an input that means nothing here."""

    name: str
    work_on: Callable[[bytes], Work | None]
    seeds: Sequence[Recipe]
    atoms: Sequence[str]
    bytes_max: int
    budget: Budget = ANYBODY


def _read_by(read: Callable[[bytes], object]) -> Callable[[bytes], Work]:
    return lambda data: partial(read, data)


def _arrived(value: bytes) -> object:
    record = ConsumerRecord("requests", 0, 0, 0, 1, None, value, None, 0, len(value), ())
    return arrival(record, KnownSchemas())


def _folded(value: bytes) -> object:
    """As the console reads a record of any topic: that of the kind which it says it is."""
    state = ConsoleState()
    for topic in {TOPIC_OF_KIND[kind] for kind in TOPIC_OF_KIND if kind.encode() in value[:200]}:
        state.take(Stored(topic, 0, 7, 0, b"key", value, ()))
    return state


def _answered(body: bytes) -> Work:
    """A provider's response, of success or of an error, by one of the APIs."""
    is_error, number = divmod(len(body) % (2 * len(READERS)), len(READERS))
    api = [*READERS.values()][number]
    if is_error:
        return partial(api.parse_error, 400, {}, body, builders.NOW)
    return partial(api.parse_response, 200, {}, body, TOKENS)


def _stored(value: bytes) -> Work:
    """A record of a private topic, as an opening lane takes it."""
    topic = next((topic for kind, topic in STORED.items() if kind.encode() in value[:40]), LEDGER)
    return lambda: RecoveredState().take(StoredRecord(topic, b"key", value))


def _parts(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\n", PIECES_MAX)


def _values(data: bytes) -> list[JsonValue] | None:
    """Each line as a value, where all are JSON texts of as many values as a request may have."""
    found = [json_text.parse(part.encode(), REQUEST_VALUES_MAX) for part in _parts(data)]
    values = [one.value for one in found if isinstance(one, json_text.Parsed)]
    return values if len(values) == len(found) else None


@cache
def _plan(schema: str) -> Plan | None:
    ref = agents.inline_ref(schema)
    return (
        builders.plan(ref) if ref and isinstance(resolve(ref, REGISTRY), ResolvedSchema) else None
    )


def _check(data: bytes) -> Work | None:
    """The first line is the schema, compiled before; what is too much is left to others."""
    schema, _, answer = data.decode(errors="replace").partition("\n")
    if len(answer.encode()) > ANSWER_BYTES_MAX or (plan := _plan(schema)) is None:
        return None

    def work() -> object:
        try:
            with sparing():
                return check(answer, plan.schema, plan.wire)
        except TooMuchWorkError as left:
            return left

    return work


def _compile(data: bytes) -> Work | None:
    """A schema that is compiled in the loop, in all dialects: the costliest counts."""
    values = _values(data)
    if values is None or len(values) != 1 or not isinstance(values[0], dict | bool):
        return None
    try:
        ref = InlineRef(name="t", wrapped=True, json_schema=values[0])
    except ValidationError:
        return None
    text, resolved = SchemaCache(REGISTRY).reading(ref)
    if not is_small(ref, text):
        return None
    return partial(compiled_for, resolved, DIALECTS[len(data) % len(DIALECTS)])


def _arrives(data: bytes) -> Work | None:
    """A schema that the child process has compiled, as the worker takes it from there."""
    values = _values(data)
    if values is None or len(values) != 1:
        return None
    return partial(loads, dumps(compile_schema(values[0]))) if isinstance(values[0], dict) else None


def _fenced(data: bytes) -> Work:
    texts = _parts(data)

    def work() -> object:
        fence = Fence(b"secret").around(texts, len(texts))
        return [fence.put("fact", text) for text in texts]

    return work


def _prompted(data: bytes) -> Work | None:
    try:
        asked = Request.model_validate_json(json.dumps({**REQUEST, "context": _context(data)}))
    except ValidationError:
        return None
    return partial(builders.prompt, asked)


def _context(data: bytes) -> dict[str, Any]:
    """Each line a fact: the value that it is as JSON, else a text."""
    facts = list[JsonValue]()
    for number, part in enumerate(_parts(data)[:1000]):
        read = json_text.parse(part.encode(), REQUEST_VALUES_MAX)
        value = read.value if isinstance(read, json_text.Parsed) else part
        facts.append({"name": f"f{number}", "value": value})
    return {"instructions": "Answer.", "messages": [], "facts": facts}


def _canonical(data: bytes) -> Work | None:
    values = _values(data)
    return partial(canonical_digest, values[0]) if values and len(values) == 1 else None


def _patched(data: bytes) -> Work | None:
    """The first line are the operations, the second what is in the request that is edited."""
    patch, _, inside = data.partition(b"\n")
    values = _values(inside)
    if not values:
        return None

    def work() -> object:
        edits = edits_of(patch)
        return edited(
            {**REQUEST, "x": values[0]}, edits.for_all if isinstance(edits, Edits) else ()
        )

    return work


def _diff(data: bytes) -> Work:
    def work() -> object:
        named_paths.cache_clear()
        return named_paths(data.decode(errors="replace"))

    return work


def _compared(data: bytes) -> Work | None:
    values = _values(data)
    if not values:
        return None
    return lambda: (marked_json(values[0], [("/0", "x")]), difference(values[0], values[-1]))


def _searched(data: bytes) -> Work:
    """A record, as a search of prompts looks for a text that it does not have."""
    stored = Stored(REQUESTS, 0, 7, 0, b"key", data, ())
    return partial(PromptText("lost in translation").match, stored)


def _of_card(data: bytes) -> Work | None:
    """A tool's schema, as the loop compiles it to check changed arguments."""
    values = _values(data)
    if values is None or len(values) != 1 or not isinstance(values[0], dict):
        return None
    schema = values[0]
    return lambda: too_large(schema, LOOP_NS) or compile_schema(schema, LOOP_NS)


def _message(data: bytes) -> Work | None:
    """As a line of an MCP server is taken, where it is not refused by its size."""
    if len(data) > MESSAGE_BYTES_MAX or values_in(data) > VALUES_MAX:
        return None

    def work() -> object:
        found = parsed_message(data)
        return None if found is None else is_costly(found)

    return work


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target(
                "request", _read_by(_arrived), seeds.of("request"), seeds.JSON, REQUEST_BYTES_MAX
            ),
            Target("event", _read_by(decode), seeds.of_events(), seeds.JSON, RECORD_BYTES_MAX),
            Target(
                "tool_result",
                _read_by(read_report),
                seeds.of("tool_result"),
                seeds.JSON,
                RECORD_BYTES_MAX,
            ),
            Target("find", _searched, seeds.of("request"), seeds.JSON, REQUEST_BYTES_MAX),
            Target("console", _read_by(_folded), seeds.of_events(), seeds.JSON, RECORD_BYTES_MAX),
            Target(
                "reply", _answered, seeds.REPLIES, seeds.JSON, ExchangeLimits().response_bytes_max
            ),
            Target("stored", _stored, seeds.of_stored(), seeds.JSON, STORED_BYTES_MAX, WORKERS),
            Target("check", _check, seeds.CHECKED, seeds.SCHEMA, 64 * 1024 + ANSWER_BYTES_MAX),
            Target("compile", _compile, seeds.SCHEMAS, seeds.SCHEMA, IN_PLACE_CHARS_MAX),
            Target("card", _of_card, seeds.CARDS, seeds.SCHEMA, INLINE_SCHEMA_BYTES_MAX),
            Target("arrive", _arrives, seeds.SCHEMAS, seeds.SCHEMA, 64 * 1024),
            Target("fence", _fenced, seeds.TEXTS, seeds.TEXT, REQUEST_BYTES_MAX),
            Target("prompt", _prompted, seeds.PROMPTS, seeds.TEXT, REQUEST_BYTES_MAX),
            Target(
                "mask",
                _read_by(lambda data: MASK(data.decode(errors="replace"))),
                seeds.MASKED,
                seeds.TEXT,
                masked.IN_PLACE_CHARS_MAX,
            ),
            Target("canonical", _canonical, seeds.VALUES, seeds.JSON, REQUEST_BYTES_MAX),
            Target("patch", _patched, seeds.PATCHES, seeds.JSON, REQUEST_BYTES_MAX),
            Target(
                "diff",
                _diff,
                seeds.DIFFS,
                seeds.DIFF,
                DIFF_BYTES_MAX,
            ),
            Target(
                "decode", agents.decoded, seeds.DECODED, seeds.SCHEMA, 64 * 1024 + ANSWER_BYTES_MAX
            ),
            Target("step", agents.stepped, seeds.STEPS, seeds.JSON, ANSWER_BYTES_MAX),
            Target("result", agents.resulted, seeds.VALUES, seeds.JSON, RECORD_BYTES_MAX),
            Target("person", agents.answered, seeds.PERSONS, seeds.JSON, TOOL_RESULT_BYTES_MAX),
            Target("compare", _compared, seeds.VALUES, seeds.JSON, ANSWER_BYTES_MAX),
            Target(
                "mcp",
                _message,
                seeds.MESSAGES,
                seeds.JSON,
                MESSAGE_BYTES_MAX,
                Budget(constant_bytes=16 * MIB),
            ),
        )
    }
)
