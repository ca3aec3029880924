"""`python -m tests.fuzz.cost.pages`: how long pages hold the console's event loop as they are made.

Each page is made of the largest content of its kind. Time is CPU time of the process between two
turns of the loop: others on this machine do not count, and threads of the console that hold it do.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from rich.console import Console

from answerbus.limits import PROBLEMS_MAX, RAW_BYTES_MAX, STEP_CALLS_MAX, STEPS_MAX
from services.operators.records.stored import Stored
from services.text.digest import canonical_digest
from tests.unit.console.context import OPERATOR, site
from tests.unit.operators.stored_examples import NOON_MS, body_of, stored

CONSOLE = Console(markup=False, highlight=False, soft_wrap=True)
TIMES = 3  # each page; the least counts
UNSEEN = "\u202e"
MANY = 3_000  # dead letters and decisions; the console keeps more
VALUES: Mapping[str, Any] = MappingProxyType(
    {
        "numbers": [-1.2345678901234567e-7] * 12_000,
        "names": {f"k{n}{UNSEEN}": n for n in range(6_000)},
        "lists": [[]] * 7_000,
        "unseen": UNSEEN * 84_000,
        "lines": "a\n" * 120_000,
    }
)
Records = Callable[[], Iterator[Stored]]


def dead_letter(value: Any) -> Iterator[Stored]:
    """A large request with a large schema, and two large answers with many problems."""
    body = body_of("dead_letter/invalid_answer")
    properties = {f"p{n}": {"type": "string"} for n in range(700)}
    schema = {"type": "object", "properties": properties}
    ref = {"kind": "inline", "name": "t", "wrapped": False, "json_schema": schema}
    facts = [{"name": "f", "value": value}]
    asked = {**body["request"], "context": {"instructions": "x", "facts": facts}}
    failure = body["prior"][-1]["failure"]
    problems = [{**failure["problems"][0], "path": f"/p{n}"} for n in range(PROBLEMS_MAX)]
    invalid = {**body["prior"][-1], "failure": {**failure, "problems": problems}}
    prior = [
        {**invalid, "attempt": n, "answer": {name: [1.5 * n] for name in properties}}
        for n in (1, 2)
    ]
    yield stored(
        "dead_letter/invalid_answer",
        dead_letter_id="d",
        request={**asked, "answer_schema": ref},
        prior=prior,
    )


def raw() -> Iterator[Stored]:
    body = body_of("dead_letter/undecodable")
    content = {**body["raw"], "base64": "AAAA" * (RAW_BYTES_MAX // 3)}
    yield stored("dead_letter/undecodable", dead_letter_id="d", raw=content)


def approvals() -> Iterator[Stored]:
    args: dict[str, Any] = {"a": UNSEEN * 10_000, "b": [1.5e-300] * 3_000}
    for n in range(20):
        yield stored(
            "approval_requested/refund",
            offset=n,
            args=args,
            args_digest=canonical_digest(args),
            call_id=f"r.call.1.{n}",
            expires_at="2026-11-22T12:00:00.000Z",
            at="2026-11-21T11:59:00.000Z",
        )


def run() -> Iterator[Stored]:
    """As many steps and calls as a run may have."""
    call = body_of("step/calls")["calls"][0]
    names: dict[str, Any] = {"workflow_id": "w", "request_id": "r"}
    for n in range(1, STEPS_MAX):
        ids = [f"r.call.{n}.{place}" for place in range(STEP_CALLS_MAX)]
        calls = [{**call, "call_id": one} for one in ids]
        at_ms, first = NOON_MS + n, n * STEP_CALLS_MAX * 2
        yield stored("step/calls", at_ms, first, **names, n=n, attempt=n, calls=calls)
        for place, one in enumerate(ids, start=1):
            yield stored("tool_ended/ok", at_ms, first + place, **names, call_id=one)


def many() -> Iterator[Stored]:
    for n in range(MANY):
        labels = {f"l{k}": f"{n}" + "v" * 200 for k in range(32)}
        ids: dict[str, Any] = {"workflow_id": f"w{n}{UNSEEN}" + "x" * 200, "request_id": f"r-{n}"}
        place: dict[str, Any] = {"at_ms": NOON_MS - n, "offset": n}
        yield stored("dead_letter/invalid_answer", **place, **ids, labels=labels)
        yield stored("attempt/result", **place, **ids, labels=labels)
        yield stored("cancel/request", **place, **ids, reason=UNSEEN * 600)


def _dead_letter_of(value: Any) -> Records:
    return lambda: dead_letter(value)


CONTENTS: Mapping[str, tuple[Records, tuple[str, ...]]] = MappingProxyType(
    {
        **{
            f"a dead letter of {name}": (_dead_letter_of(value), ("/letters/one?id=d",))
            for name, value in VALUES.items()
        },
        "a dead letter of bytes": (raw, ("/letters/one?id=d",)),
        "approvals": (approvals, ("/runs",)),
        "a long run": (run, ("/workflow?id=w", "/runs", "/tail")),
        "many records": (
            many,
            ("/", "/letters", "/letters/list", "/actions", "/money", "/money.json", "/tail"),
        ),
    }
)


class _Held:
    """The longest time between two turns of the loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        before = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest_s, before = max(self.longest_s, now - before), now


async def held_s(name: str) -> dict[str, float]:
    """By path, how long the loop is held at most while a page with that content is made."""
    records, paths = CONTENTS[name]
    found = dict[str, float]()
    async with site(*records()) as here:
        cookie = await here.log_in(OPERATOR)
        for path in paths * (TIMES + 1):  # the first one loads templates
            gc.collect()
            gc.freeze()
            held = _Held()
            watching = asyncio.create_task(held.watch())
            response = await here.get(path, cookie)
            await response.read()
            watching.cancel()
            assert response.status == 200, path
            found[path] = min(found.get(path, held.longest_s), held.longest_s)
    return found


def main() -> None:
    for name in sys.argv[1:] or CONTENTS:
        for path, longest_s in asyncio.run(held_s(name)).items():
            CONSOLE.print(
                json.dumps({"content": name, "path": path, "ms": round(longest_s * 1e3, 1)})
            )


if __name__ == "__main__":
    main()
