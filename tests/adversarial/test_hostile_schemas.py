"""Schemas meant to harm: refused before any call, or harmless; in little time, memory and words."""

import resource
import socket
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from answerbus import json_text
from answerbus.failure import Invalid
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.corpora import own_cases, raw
from tests.cpu_time import cpu_time

CASES = [pytest.param(case, id=case["id"]) for case in own_cases().hostile_schemas()]
SECONDS_MAX = 1.0
MEMORY_MAX_KIB = 200 * 1024
REMOTE = ("127.0.0.1", 47113)  # where the remote references of the cases lead to
VALID: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(scope="module")
def no_connections() -> Iterator[socket.socket]:
    with socket.create_server(REMOTE, reuse_port=True) as server:  # tests may run side by side
        server.setblocking(False)
        yield server


DIALECTS = get_args(DialectName)


def resolved(
    text: bytes, dialect: DialectName = "openai"
) -> ResolvedSchema | Unusable | json_text.NotJson:
    """What becomes of a schema's text, as far as a worker would go before it asks a provider."""
    parsed = json_text.parse(text)
    if isinstance(parsed, json_text.NotJson):
        return parsed
    if not isinstance(parsed.value, dict | bool):
        return json_text.NotJson("a schema", 0, "")  # no request can carry it
    ref = InlineRef(name="hostile", wrapped=False, json_schema=parsed.value)
    asked = resolve(ref, Registry([]))
    if isinstance(asked, ResolvedSchema):
        compile_for(dialect, asked)
    return asked


def answered(asked: ResolvedSchema, raw: str) -> bool | None:
    """The verdict on an answer, None if it is not JSON."""
    parsed = json_text.parse(raw.encode())
    if isinstance(parsed, json_text.NotJson):
        return None
    return isinstance(asked.read(parsed.value), Accepted)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", CASES)
def test_a_hostile_schema_harms_no_worker(
    case: Any, dialect: DialectName, no_connections: socket.socket
) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdicts: list[bool | None] = []
    with cpu_time() as cpu:
        outcome = resolved(raw(case), dialect)
        if isinstance(outcome, ResolvedSchema):
            verdicts = [answered(outcome, answer["raw"]) for answer in case.get("answers", [])]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory

    assert cpu.is_below(SECONDS_MAX)
    assert grown < MEMORY_MAX_KIB
    assert isinstance(outcome, ResolvedSchema) or case["expect"] != "accept"
    assert not isinstance(outcome, ResolvedSchema) or case["expect"] != "refuse"
    assert all(
        answer["valid"] in (None, verdict)
        for answer, verdict in zip(case.get("answers", []), verdicts, strict=False)
    )
    with pytest.raises(BlockingIOError):
        no_connections.accept()


@pytest.mark.parametrize("case", CASES)
def test_what_is_reported_is_short_and_tells_no_secret(case: Any) -> None:
    match resolved(raw(case)):
        case Unusable(cause=cause):
            text = cause.model_dump_json()
        case json_text.NotJson(excerpt=excerpt, reason=reason):
            text = excerpt + reason
        case ResolvedSchema():
            return

    assert len(text) < 20 * 1024
    assert "password" not in text


@pytest.mark.parametrize("case", CASES)
def test_the_next_valid_schema_means_what_it_says(case: Any) -> None:
    resolved(raw(case))
    asked = resolve(InlineRef(name="honest", wrapped=False, json_schema=VALID), Registry([]))

    assert isinstance(asked, ResolvedSchema)
    assert asked.read({"n": 1}) == Accepted({"n": 1})
    refused = asked.read({"n": "1"})
    assert isinstance(refused, Invalid)
    (problem,) = refused.problems
    assert (problem.path, problem.code) == ("/n", "type")
    assert problem.expected == 'a value of type "integer"'
