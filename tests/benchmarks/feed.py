"""Keeps a backlog of the same depth before a contestant, so that it takes in what it finishes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tests.benchmarks.rig import Field
from tests.benchmarks.upstream import request_body

LOOK_EVERY_S = 0.05
JOIN_LIMIT_S = 90.0  # longer than a delivery may take


@contextmanager
def feeding(field: Field, waiting: int, workflows: int) -> Iterator[None]:
    """Publish whenever fewer than `waiting` requests have not yet reached the stub."""
    over = threading.Event()
    failed: list[BaseException] = []

    def feed() -> None:
        try:
            published = 0
            numbers = count()
            while not over.wait(LOOK_EVERY_S):
                missing = waiting - (published - field.rig.stub.stats()["arrived"])
                for _ in range(missing):
                    n = next(numbers)
                    name = field.bus.prefix
                    field.upstream.publish(request_body(f"{name}-{n}", f"{name}-w{n % workflows}"))
                published += max(missing, 0)
            field.upstream.flush()
        except BaseException as error:
            failed.append(error)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join(JOIN_LIMIT_S)
    if failed:
        raise RuntimeError("the upstream failed") from failed[0]
