"""What publishes while a contestant works, such as a backlog that always has the same depth."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from tests.benchmarks.rig import Field
from tests.benchmarks.upstream import CONTEXT_BYTES, request_body

LOOK_EVERY_S = 0.05
JOIN_LIMIT_S = 90.0  # longer than a delivery may take


@contextmanager
def feeding(
    field: Field, waiting: int, workflows: int, context_bytes: int = CONTEXT_BYTES
) -> Iterator[None]:
    """Publish whenever fewer than `waiting` requests have not yet reached the stub."""

    def feed(over: threading.Event) -> None:
        published = 0
        numbers = count()
        while not over.wait(LOOK_EVERY_S):
            missing = waiting - (published - field.rig.stub.stats()["arrived"])
            for _ in range(missing):
                n = next(numbers)
                name = field.bus.prefix
                workflow = f"{name}-w{n % workflows}"
                field.upstream.publish(request_body(f"{name}-{n}", workflow, context_bytes))
            published += max(missing, 0)
        field.upstream.flush()

    with meanwhile(feed):
        yield


@contextmanager
def meanwhile(feed: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `feed` in a thread during the block; its event says that the block is over.

    What it fails with is raised at the end.
    """
    over = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            feed(over)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_LIMIT_S)
    if failed:
        raise RuntimeError("the upstream failed") from failed[0]
