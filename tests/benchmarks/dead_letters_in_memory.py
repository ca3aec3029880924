"""What 100,000 dead letters cost: `python -m tests.benchmarks.dead_letters_in_memory`."""

import json
import time
import tracemalloc
from collections.abc import Iterator

from answerbus.topics import DEAD_LETTERS
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.integration.dead_letters import WITH_REQUEST, dead_letter, dead_letters

COUNT = 100_000
FACT = {"name": "manifest", "value": "x" * 1_000, "trust": "trusted"}


def stored(count: int, facts: int) -> Iterator[Stored]:
    """Letters, each of its own workflow and with a label of its own."""
    examples = dead_letters(len(WITH_REQUEST), WITH_REQUEST)
    for example in examples:
        example["request"]["context"]["facts"] += [FACT] * facts
    for n in range(count):
        body = dead_letter(examples[n % len(examples)], n, f"order-{n}")
        value = json.dumps({**body, "labels": {"ticket": f"OPS-{n}"}}).encode()
        yield Stored(DEAD_LETTERS, n % 12, n, 0, None, value, ())


def main() -> None:
    """Print the figures."""
    for facts in (0, 100):
        records = list(stored(1_000, facts))
        size = len(records[0].value or b"")
        folded, began = DeadLetterIndex(), time.perf_counter()
        for record in records:
            folded.take(summarize(record))
        took_us = (time.perf_counter() - began) / len(records) * 1e6
        print(f"{size:,} bytes: {took_us:.0f} µs a letter")  # noqa: T201
    tracemalloc.start()
    folded = DeadLetterIndex()
    for record in stored(COUNT, 0):
        folded.take(summarize(record))
    held_mb = tracemalloc.get_traced_memory()[0] / 1e6
    print(f"{len(folded):,} letters: {held_mb:.0f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
