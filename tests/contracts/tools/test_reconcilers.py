"""Reconcilers in a tool server: what they find, and those that lie, hang or raise."""

import asyncio
import threading
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from answerbus.tools import DidNotHappen, Happened, NotKnown, Toolset
from answerbus.tools.core.function_tool import ToolSignatureError
from answerbus.tools.questions import AT_ONCE_MAX
from tests.contracts.tools.channel_in_memory import Broker, Serving, call_body, until


class Receipt(BaseModel):
    paid: date


def question_body(call_id: str = "c-1", **changes: Any) -> dict[str, Any]:
    body = call_body(call_id, **changes)
    for name in ("parent",):
        del body[name]
    return {**body, "kind": "tool_reconcile", **changes}


def findings(broker: Broker) -> list[dict[str, Any]]:
    return [said["finding"] for said in broker.answers if said["kind"] == "tool_reconciled"]


def refunds(reconcile: Callable[[str, Any], Any] | None, timeout_s: float = 30.0) -> Toolset:
    toolset = Toolset("deeds")

    @toolset.tool(delivery="at_most_once", reconcile=reconcile, timeout_s=timeout_s)
    async def act(name: str) -> str:
        await asyncio.Event().wait()
        return name

    return toolset


async def asked(toolset: Toolset, *questions: dict[str, Any]) -> list[dict[str, Any]]:
    broker = Broker()
    broker.put(*questions)
    serving = Serving(toolset, broker)
    await until(lambda: len(findings(broker)) == len(questions))
    await serving.stop()
    assert broker.committed.offset == len(questions)
    return findings(broker)


def test_the_card_says_that_a_tool_has_a_reconciler() -> None:
    (with_one,) = refunds(lambda *_: NotKnown()).card().tools
    (without,) = refunds(None).card().tools

    assert (with_one.reconcilable, without.reconcilable) == (True, False)
    assert "reconcilable" not in without.model_dump(mode="json")
    assert with_one.computed_digest() != without.computed_digest()


def test_a_tool_that_may_run_again_needs_no_reconciler() -> None:
    with pytest.raises(ToolSignatureError, match="at_most_once"):
        Toolset("deeds").tool(reconcile=lambda *_: NotKnown())(lambda: None)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Happened(value={"a": 1}, micro_usd=5), {"value": {"a": 1}, "micro_usd": 5}),
        (Happened(value=Receipt(paid=date(2026, 11, 21))), {"value": {"paid": "2026-11-21"}}),
        (Happened(micro_usd=2 * 10**9), {"kind": "happened", "micro_usd": 10**9}),
        (Happened(micro_usd=7.5), {"kind": "happened", "micro_usd": 8}),
        (Happened(micro_usd=0.0), {"kind": "happened", "micro_usd": 0}),
        ({"kind": "happened", "micro_usd": 2e9}, {"kind": "happened", "micro_usd": 10**9}),
        ({"kind": "happened", "micro_usd": 0.0}, {"kind": "happened", "micro_usd": 0}),
        (DidNotHappen(), {"kind": "did_not_happen"}),
        (NotKnown(), {"kind": "unknown"}),
        ({"kind": "happened", "value": 1}, {"kind": "happened", "value": 1}),
        (None, {"kind": "unknown"}),
        (True, {"kind": "unknown"}),
        ({"kind": "maybe"}, {"kind": "unknown"}),
        (Happened(value="x" * 70_000), {"kind": "unknown"}),
    ],
)
@pytest.mark.parametrize("form", ["async", "plain", "not awaited"])
async def test_what_a_reconciler_returns_is_a_finding_or_nothing_is_found_out(
    found: Any, said: dict[str, Any], form: str
) -> None:
    seen: list[tuple[str, str]] = []

    def plain(call_id: str, args: Any) -> Any:
        seen.append((call_id, args.name))
        return found

    async def awaited(call_id: str, args: Any) -> Any:
        return plain(call_id, args)

    def not_awaited(call_id: str, args: Any) -> Any:
        return awaited(call_id, args)

    forms: dict[str, Any] = {"async": awaited, "plain": plain, "not awaited": not_awaited}
    (answer,) = await asked(refunds(forms[form]), question_body())

    assert answer.items() >= said.items()
    assert seen == [("c-1", "c-1")]


@pytest.mark.parametrize(
    "changes", [{"tool": "nothing"}, {"args": {}}, {"args": {"name": 1}}, {"args": {"name": [1]}}]
)
async def test_a_question_that_cannot_be_put_finds_nothing_out(changes: dict[str, Any]) -> None:
    assert await asked(refunds(lambda *_: DidNotHappen()), question_body(**changes)) == [
        {"kind": "unknown"}
    ]


async def test_a_reconciler_that_raises_or_ends_its_process_finds_nothing_out() -> None:
    def leave(call_id: str, _: Any) -> Any:
        raise SystemExit if call_id == "c-1" else ValueError

    found = await asked(refunds(leave), question_body("c-1"), question_body("c-2"))
    assert found == [{"kind": "unknown"}] * 2


async def test_reconcilers_that_hang_in_threads_stop_no_server_and_no_tool() -> None:
    may_end = threading.Event()
    questions = [question_body(f"c-{number}") for number in range(AT_ONCE_MAX + 3)]
    try:
        found = await asked(refunds(lambda *_: may_end.wait(), timeout_s=0.05), *questions)
    finally:
        may_end.set()
    assert found == [{"kind": "unknown"}] * len(questions)


@pytest.mark.parametrize(
    "changes",
    [
        {"expires_at": "2026-11-21T09:59:59Z"},
        {"toolset": "other"},
        {"reply": {"topic": "elsewhere", "partition": 3, "key": "w-1", "token": "A" * 22 + "=="}},
    ],
)
async def test_what_is_not_to_be_answered_is_passed_by(changes: dict[str, Any]) -> None:
    broker = Broker()
    broker.put(question_body(**changes), question_body("c-2"))
    serving = Serving(refunds(lambda *_: DidNotHappen()), broker)
    await until(lambda: findings(broker))
    await serving.stop()

    assert findings(broker) == [{"kind": "did_not_happen"}]
    assert broker.committed.offset == 2


async def test_a_server_at_work_on_a_call_does_not_say_that_it_did_not_happen() -> None:
    broker = Broker()
    broker.put(call_body("c-1"))
    serving = Serving(refunds(lambda *_: DidNotHappen()), broker, drain_s=0.0)
    await until(lambda: broker.committed.offset == 1)
    broker.put(question_body("c-1"), question_body("c-2"))
    await until(lambda: len(findings(broker)) == 2)
    await serving.stop()

    assert {"kind": "unknown"} in findings(broker)
    assert {"kind": "did_not_happen"} in findings(broker)


async def test_a_tool_whose_time_is_over_is_not_answered_where_its_fate_can_be_found_out() -> None:
    broker = Broker()
    broker.put(call_body("c-1"))
    serving = Serving(refunds(lambda *_: Happened(value=1), timeout_s=0.05), broker)
    await until(lambda: serving.server.counts["timed_out"] == 1)
    broker.put(question_body("c-1"))
    await until(lambda: findings(broker))
    await serving.stop()

    assert broker.results == []
    assert findings(broker) == [{"kind": "happened", "value": 1}]
