"""Dead letters and attempts of a long past, as fast as a broker takes them, or at a pace."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from threading import Event, Thread

from confluent_kafka import Producer

from answerbus.partition import partition_of
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, Topic
from tests.integration.bus import Bus

FLUSH_LIMIT_S = 300.0
PACE_S = 0.05
ATTEMPTS_EACH = 5  # of a workflow
DEAD_LETTER_EVERY = 10  # attempts
_EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
_WORKFLOW, _REQUEST, _MARK = b"order-4711", b"0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10", b"past"
Record = tuple[Topic, bytes, bytes]  # with its workflow and its bytes
_CAUSES = (
    *("invalid_answer", "deadline_passed", "budget_exhausted_attempts", "budget_exhausted_tokens"),
    *("unknown_profile", "unknown_schema", "hostile_schema", "unsupported_schema", "rejected"),
    *("crashed_worker", "answer_too_large", "budget_exhausted_micro_usd"),
)


def write(bus: Bus, attempts: int) -> None:
    """So many attempts, and a letter for each LETTER_EVERY of them, of 12 causes."""
    send(bus, _records(range(attempts)))


@contextmanager
def arriving(bus: Bus, first: int, per_s: int) -> Iterator[None]:
    """So many records a second go on arriving, from that number on, until it ends."""
    ended = Event()
    thread = Thread(target=send, args=(bus, _paced(_records(count(first)), per_s, ended)))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _paced(records: Iterator[Record], per_s: int, ended: Event) -> Iterator[Record]:
    """A few each time, so that they arrive as from many services."""
    began, done = time.monotonic(), 0
    while not ended.wait(PACE_S):
        due = int((time.monotonic() - began) * per_s)
        yield from islice(records, due - done)
        done = due


def send(bus: Bus, records: Iterable[Record]) -> None:
    """Each into the partition of its workflow."""
    producer = Producer({"bootstrap.servers": bus.bootstrap, "linger.ms": 20, "log_level": 0})
    for topic, workflow_id, value in records:
        while True:
            try:
                producer.produce(
                    bus.topic(topic),
                    value,
                    workflow_id,
                    partition=partition_of(workflow_id.decode(), bus.partitions),
                )
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(FLUSH_LIMIT_S):
        raise RuntimeError("the past was not written")


def _records(numbers: Iterable[int]) -> Iterator[Record]:
    tried = cycle([_example(f"attempt/{kind}") for kind in ("retry", "result", "refusal")])
    died = cycle([_example(f"dead_letter/{cause}") for cause in _CAUSES])
    for n in numbers:
        workflow_id, request_id = b"%s-w%d" % (_MARK, n // ATTEMPTS_EACH), b"%s-%d" % (_MARK, n)
        yield ATTEMPTS, workflow_id, _of(next(tried), workflow_id, request_id)
        if n % DEAD_LETTER_EVERY == 0:
            yield DEAD_LETTERS, workflow_id, _of(next(died), workflow_id, request_id)


def _example(name: str) -> bytes:
    """Each request has labels that many share, and one of its own."""
    found = json.loads((_EXAMPLES / f"{name}.json").read_text())
    if found.get("request"):
        found["request"]["labels"] = {"tenant": "acme", "order": _REQUEST.decode()}
    return json.dumps(found).encode()


def _of(example: bytes, workflow_id: bytes, request_id: bytes) -> bytes:
    return example.replace(_WORKFLOW, workflow_id).replace(_REQUEST, request_id)
