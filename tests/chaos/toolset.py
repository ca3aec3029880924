"""The tools of a run of chaos: each notes in a file that it began and that it ended.

JOURNAL=deeds.jsonl answerbus tools serve tests.chaos.toolset:deeds
"""

import asyncio
import json
import os
import random
import signal
import uuid
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from answerbus.tools import DidNotHappen, Happened, ToolCall, Toolset
from tests.chaos.script import TOOLSET

JOURNAL_VARIABLE = "JOURNAL"
DIES_VARIABLE = "DIES_ONE_IN"
TIMEOUT_S = 8.0
LASTS_S = (0.0, 0.2)
LONG_S = 2.0  # what one call in so many lasts
ONE_IN = 20
BIG = (15_000, 60_000)  # empty objects: 60 KB, which a run takes, and more than it takes
BIG_ONE_IN = 25

deeds = Toolset(TOOLSET)


@deeds.tool(timeout_s=TIMEOUT_S)
async def often(step: int, call: ToolCall) -> JsonValue:
    """At least once: it may be repeated."""
    return await _noted("often", step, call)


def find(call_id: str, step: int) -> Happened | DidNotHappen:
    """By the journal: what is noted as begun has had its effect."""
    with _journal().open() as journal:
        begun = any(json.loads(line)["call_id"] == call_id for line in journal)
    return Happened(value=f"once has done {step}") if begun else DidNotHappen()


@deeds.tool(delivery="at_most_once", timeout_s=TIMEOUT_S, reconcile=lambda i, a: find(i, a.step))
async def once(step: int, call: ToolCall) -> JsonValue:
    """At most once: what it does cannot be taken back."""
    done = await _noted("once", step, call)
    one_in = int(os.environ.get(DIES_VARIABLE, "0"))  # noqa: TID251 - set by the run of chaos
    if one_in and random.Random(f"{call.id} dies").randrange(one_in) == 0:
        os.kill(os.getpid(), signal.SIGKILL)  # after its effect, and before its reply
    return done


@deeds.tool(delivery="at_most_once", approval="always", timeout_s=TIMEOUT_S)
async def asked(step: int, call: ToolCall) -> JsonValue:
    """Only if a person has approved it."""
    return await _noted("asked", step, call)


async def _noted(tool: str, step: int, call: ToolCall) -> JsonValue:
    run = uuid.uuid4().hex
    fields = {"run": run, "call_id": call.id, "delivery": call.delivery, "tool": tool}
    _note({"event": "start", **fields})
    chance = random.Random(call.id)
    lasts_s = LONG_S if chance.randrange(ONE_IN) == 0 else chance.uniform(*LASTS_S)
    async with call.heartbeat("at work"):
        await asyncio.sleep(lasts_s)
    _note({"event": "end", **fields})
    if chance.randrange(BIG_ONE_IN) == 0:
        return [{}] * chance.choice(BIG)
    return f"{tool} has done {step}"


def _note(line: dict[str, object]) -> None:
    """In one write to a file that is only added to: no other server's line tears it apart."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")  # noqa: TID251 - a tool's own clock
    text = json.dumps({**line, "pid": os.getpid(), "at": at}) + "\n"
    with _journal().open("a") as journal:
        journal.write(text)


def _journal() -> Path:
    return Path(os.environ[JOURNAL_VARIABLE])  # noqa: TID251 - set by the run of chaos
