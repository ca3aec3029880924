"""Requests of one workflow all at once, where its budget ends; and workflows of nearly one name."""

import unicodedata
from collections import Counter
from typing import Any

import pytest

from tests.integration.bus import ANSWERED, Bus, request
from tests.integration.evidence import assert_sound, collect

pytestmark = pytest.mark.kafka

AT_ONCE = 64
LIMITS = (1, 2, 3, 5)
FORMS = {
    "upper": "Größe",
    "lower": "größe",
    "capitals": "GRÖSSE",
    "decomposed": unicodedata.normalize("NFD", "größe"),
    "space": " größe",
    "derived": "größe~0123456789ab",
}
RULES: list[dict[str, Any]] = [
    {"when": {"request_id": "*-odd-*"}, "reply": {"kind": "answered", "content": "{"}},
    {"reply": ANSWERED, "latency_s": 0.05},
]


def requests_of(workflow_id: str, name: str, limit: int, count: int) -> list[dict[str, Any]]:
    """Every second one is answered with what is no answer, and asks again while it may."""
    return [
        request(
            f"{name}-{'odd' if number % 2 else 'even'}-{number}",
            workflow_id,
            policy={"ordering": "none"},
            budget={"attempts": limit},
        )
        for number in range(count)
    ]


async def test_no_call_is_made_beyond_the_budget_by_many_requests_at_once(bus: Bus) -> None:
    bodies = [
        body for limit in LIMITS for body in requests_of(f"w-{limit}", f"w-{limit}", limit, AT_ONCE)
    ]
    bodies += [body for name, form in FORMS.items() for body in requests_of(form, name, 1, 2)]
    bus.start_worker(bus.config(RULES, worker={"max_in_flight": 1_000}))

    await bus.publish(bodies)
    ended = await bus.terminals(len(bodies))

    calls = Counter(call["request_id"].rsplit("-", 2)[0] for call in bus.calls())
    assert calls == {f"w-{limit}": limit for limit in LIMITS} | dict.fromkeys(FORMS, 1)
    assert Counter(event["request_id"] for event in ended) == Counter(
        body["request_id"] for body in bodies
    )
    evidence = await collect(bus)
    assert_sound(evidence)
    spent = [account["spent"]["attempts"] for account in evidence.accounts.values()]
    assert sorted(spent) == sorted(calls.values())  # an account each
