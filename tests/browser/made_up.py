"""A console on a past that was made up, for what needs a browser and no Kafka."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from services.console.tasks.polling import WorkerStatus
from services.operators.dead_letters.moment import as_text
from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, Site, site
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored

PATH = "/actions/0/args"
INVALID = {"kind": "invalid", "problems": [{"path": PATH, "code": "json_text", "expected": "JSON"}]}
TIMED_OUT = {"kind": "timed_out", "after_s": 30.0}
BAD, SLOW = 153, 40
PROFILES = ("claude", "default", "gemini", "openai", "small")


def dead_letter(number: int) -> Stored:
    """Most have an argument that is not JSON, three times; the others waited for their provider."""
    bad = number < BAD
    name, contract = f"order-{number // 3}.step-{number}", "agent_action" if bad else "selection"
    asked = {
        **body_of("dead_letter/budget_exhausted_attempts")["request"],
        "request_id": name,
        "workflow_id": f"order-{number // 3}",
        "answer_schema": {"kind": "contract", "name": contract, "version": 1},
    }
    answers = [{"actions": [{"tool": "npm", "args": f"npm {word}"}]} for word in ("i", "ci", "up")]
    return stored(
        "dead_letter/budget_exhausted_attempts",
        NOON_MS - number * MINUTE_MS,
        number,
        dead_letter_id=f"{name}.dead-letter",
        request_id=name,
        workflow_id=f"order-{number // 3}",
        at=as_text(NOON_MS - number * MINUTE_MS),
        request=asked,
        prior=[
            {
                "attempt": n,
                "failure": INVALID if bad else TIMED_OUT,
                "answer": (bad and answer) or None,
            }
            for n, answer in enumerate(answers, start=1)
        ],
    )


def past() -> list[Stored]:
    """Letters, with requests and attempts before them."""
    found = [dead_letter(number) for number in range(BAD + SLOW)]
    for number in range(BAD + SLOW):
        at_ms, order = NOON_MS - number * MINUTE_MS - 30_000, f"order-{number // 3}"
        name = f"{order}.step-{number}"
        ids: dict[str, Any] = {"request_id": name, "workflow_id": order}
        found.append(stored("request/minimal", at_ms, number, **ids))
        attempt: dict[str, Any] = {
            **ids,
            "attempt": 1,
            "failure": INVALID,
            "started_at": as_text(at_ms + 1_500),
        }
        found.append(stored("attempt/retry", at_ms + 9_000, number, **attempt))
    return sorted(found, key=lambda record: record.at_ms)


@asynccontextmanager
async def made_up(*more: Stored, away: bool = True) -> AsyncIterator[tuple[Site, str]]:
    """The console, and an operator's cookie; all providers are away, or none."""
    fields = {
        "ready": not away,
        "unhealthy_profiles": {name: f"no connection to {name}" for name in PROFILES}
        if away
        else {},
        "profiles": {
            name: {
                "problem": "no_connection" if away else None,
                "since": as_text(NOON_MS - 95_000),
                "requests": 100,
                "oldest": as_text(NOON_MS - 95_000),
            }
            for name in PROFILES
        },
    }
    async with site(*sorted([*past(), *more], key=lambda one: one.at_ms)) as here:
        here.context.poller.results.workers = [WorkerStatus("http://w:1", not away, fields)]
        yield here, await here.log_in(OPERATOR)
