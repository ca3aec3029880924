"""`python -m tests.benchmarks.cost_of_a_schema`: CPU of taking requests that carry a schema."""

import json
import sys
import time
from collections.abc import Callable
from functools import partial

from aiokafka import ConsumerRecord

from answerbus.envelope import ReceivedRequest
from answerbus.registry import Registry
from services.worker.adapters.kafka.arrivals import arrival
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.dialects.schema_cache import SchemaCache
from tests.unit.worker.builders import body

MEMBERS = (4, 38, 380)  # of the schema
ROUNDS, TIMES = 15, 20


def value_of(members: int) -> bytes:
    """A request that carries a schema of so many members."""
    words = "The value of this member, as it is said in the text of the letter."
    named = {f"member_{n}": {"type": "string", "description": words} for n in range(members)}
    schema = {"type": "object", "properties": named, "required": [*named]}
    ref = {"kind": "inline", "name": "big", "wrapped": False, "json_schema": schema}
    return json.dumps(body(answer_schema=ref)).encode()


def take(value: bytes, cache: SchemaCache, known: KnownSchemas | None) -> None:
    """From a record to the schema that it is asked with, which is compiled by now."""
    record = ConsumerRecord("requests", 0, 0, 0, 1, None, value, None, 0, len(value), ())
    decoded = arrival(record, known or KnownSchemas()).decoded
    assert isinstance(decoded, ReceivedRequest)
    cache.compiled(decoded.request.answer_schema, "openai")


def cost_ms(work: Callable[[], None]) -> float:
    """The least of some rounds, since others use this machine, too."""
    found = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(TIMES):
            work()
        found.append((time.thread_time() - began) / TIMES * 1e3)
    return min(found)


def main() -> None:
    for members in MEMBERS:
        value, cache, known = value_of(members), SchemaCache(Registry([])), KnownSchemas()
        first = cost_ms(partial(take, value, cache, None))
        again = cost_ms(partial(take, value, cache, known))
        line = f"{len(value):,} bytes: {first:.3f} ms, with a known schema {again:.3f} ms"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
