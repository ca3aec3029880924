"""A tool server in memory: what it answers, what it drops, and what runs how often over crashes."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from answerbus.tools import ToolCall, ToolError, Toolset
from answerbus.tools.server import ServerStuckError
from tests.contracts.tools.channel_in_memory import (
    Broker,
    Serving,
    call_body,
    cancel_body,
    until,
)

UNDECODABLE = [
    b"",
    b"{",
    b"\xff",
    b"null",
    b"{}",
    b"[1]",
    b'{"kind":"tool_call"}',
    b'{"kind":"lane"}',
]


class Deeds:
    """A toolset whose tools note that they run, and wait until they are told to end."""

    def __init__(self, delivery: Any = "at_least_once", timeout_s: float = 30.0) -> None:
        self.toolset = Toolset("deeds")
        self.ran: Counter[str] = Counter()
        self.may_end = asyncio.Event()

        @self.toolset.tool(delivery=delivery, timeout_s=timeout_s)
        async def act(name: str) -> str:
            self.ran[name] += 1
            await self.may_end.wait()
            return name


async def test_calls_are_answered_where_they_say_with_their_token() -> None:
    broker, deeds = Broker(), Deeds()
    deeds.may_end.set()
    broker.put(call_body("c-1"))
    serving = Serving(deeds.toolset, broker)

    await serving.stop_once_answered()

    (result,) = broker.results
    assert result["outcome"] == {"kind": "ok", "value": "c-1"}
    assert (result["_at"], result["server"]) == ((3, "w-1"), "here")
    assert result["token"] == call_body("c-1")["reply"]["token"]
    assert broker.committed.offset == 1


async def test_a_tool_has_the_trace_of_its_call_and_nothing_else_of_its_headers() -> None:
    broker, deeds, seen = Broker(), Toolset("deeds"), list[dict[str, str]]()
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    broker.headers = [("traceparent", trace.encode()), ("other", b"x"), ("tracestate", b"\xff")]

    @deeds.tool
    async def act(name: str, call: ToolCall) -> str:
        seen.append(dict(call.trace))
        return name

    broker.put(call_body("c-1"))
    serving = Serving(deeds, broker)
    await serving.stop_once_answered()

    assert seen == [{"traceparent": trace}]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tool": "nothing"}, "unknown_tool"),
        ({"args": {}}, "invalid_args"),
        ({"args": {"name": 1}}, "invalid_args"),
        ({"args": {"name": "x", "more": 1}}, "invalid_args"),
        ({"args": {"name": "x" * 70_000}}, "invalid_args"),
        ({"tool": "guarded"}, "not_approved"),
        ({"tool": "raises"}, "crashed"),
        ({"tool": "leaves"}, "crashed"),
        ({"tool": "stops"}, "crashed"),
        ({"tool": "says_no"}, "no-stock"),
        ({"tool": "large"}, "too_large"),
        ({"tool": "no_json"}, "not_json"),
        ({"tool": "nan"}, "not_json"),
        ({"tool": "hangs"}, "timed_out"),
        ({"tool": "hangs_in_a_thread"}, "timed_out"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_word(change: dict[str, Any], code: str) -> None:
    broker, release = Broker(), threading.Event()
    broker.put(call_body("c-1", **{"args": {"name": "x"}, **change}))
    serving = Serving(failing_tools(release), broker)

    await until(lambda: broker.results)
    release.set()
    await serving.stop()

    failure = broker.outcome("c-1")
    assert (failure["kind"], failure["code"]) == ("error", code)
    assert "secret" not in failure["message"]
    assert broker.committed.offset == 1


def failing_tools(release: threading.Event) -> Toolset:  # noqa: C901 - one tool for each fault
    tools = Toolset("deeds")

    @tools.tool
    def act(name: str) -> str:
        return name

    @tools.tool(approval="always")
    def guarded(name: str) -> str:
        return name

    @tools.tool
    async def raises(name: str) -> str:
        raise ValueError(f"secret {name}")

    @tools.tool
    def leaves(name: str) -> str:
        raise SystemExit(name)

    @tools.tool
    def stops(name: str) -> str:
        raise StopIteration(name)

    @tools.tool
    def says_no(name: str) -> str:
        raise ToolError("no-stock", f"no {name} left", retryable=True)

    @tools.tool
    def large(name: str) -> str:
        return name * 70_000

    @tools.tool
    def no_json(name: str) -> object:
        return {name: object()}

    @tools.tool
    def nan(name: str) -> object:
        return {name: float("nan")}

    @tools.tool(timeout_s=0.05)
    async def hangs(name: str) -> str:
        await asyncio.Event().wait()
        return name

    @tools.tool(timeout_s=0.05)
    def hangs_in_a_thread(name: str) -> str:
        release.wait()
        return name

    return tools


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        *[(junk, "undecodable") for junk in UNDECODABLE],
        (call_body("c-1", toolset="other"), "foreign_toolset"),
        (
            call_body("c-1", reply={**call_body("c-1")["reply"], "topic": "answerbus.requests.v1"}),
            "foreign_reply",
        ),
        (call_body("c-1", reply={**call_body("c-1")["reply"], "partition": 99}), "unanswerable"),
        (call_body("c-1", expires_at="2026-11-21T09:59:59Z"), "expired"),
        (
            {"kind": "tool_result", "call_id": "c", "workflow_id": "w", "outcome": {}},
            "undecodable",
        ),
    ],
)
async def test_what_must_not_be_answered_is_dropped_and_counted(
    record: bytes | dict[str, Any], reason: str
) -> None:
    broker, deeds = Broker(), Deeds()
    deeds.may_end.set()
    broker.put(record, call_body("last"))
    serving = Serving(deeds.toolset, broker)

    await serving.stop_once_answered()

    assert [result["call_id"] for result in broker.results] == ["last"]
    assert serving.server.counts == {reason: 1, "ok": 1}
    assert broker.committed.offset == 2


async def test_a_repeated_call_runs_once_and_is_answered_again_with_the_same() -> None:
    broker, deeds = Broker(), Deeds()
    broker.put(call_body("c-1"), call_body("c-1", delivery=2))
    serving = Serving(deeds.toolset, broker)
    await until(lambda: serving.server.counts["repeated"])
    deeds.may_end.set()
    await until(lambda: broker.results)

    broker.put(call_body("c-1", delivery=3), call_body("c-1", args_digest="sha256:" + "1" * 64))
    await until(lambda: serving.server.counts["conflicting"])
    await until(lambda: len(broker.results) == 2)
    await serving.stop()

    assert deeds.ran == {"c-1": 1}
    assert broker.results[0]["outcome"] == broker.results[1]["outcome"]


async def test_a_cancelled_call_ends_without_an_answer() -> None:
    broker, deeds = Broker(), Deeds()
    broker.put(call_body("c-1"))
    serving = Serving(deeds.toolset, broker)
    await until(lambda: deeds.ran)

    broker.put(cancel_body("c-1"), cancel_body("unknown"))
    await until(lambda: serving.server.counts["cancelled"])
    await serving.stop()

    assert broker.answers == []
    assert broker.committed.offset == 3


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
async def test_over_crashes_each_delivery_keeps_its_word(delivery: Any) -> None:
    """Killed while all run, then again; the third server may end."""
    broker, deeds = Broker(), Deeds(delivery)
    calls = [f"c-{number}" for number in range(12)]
    broker.put(*map(call_body, calls))

    for _ in range(2):
        serving = Serving(deeds.toolset, broker, concurrency=4)
        before = deeds.ran.total()
        await until(lambda before=before: deeds.ran.total() == before + 4)
        await serving.kill()
    deeds.may_end.set()
    serving = Serving(deeds.toolset, broker, concurrency=4)
    await until(lambda: set(deeds.ran) == set(calls))
    await until(lambda: len(broker.results) >= (12 if delivery == "at_least_once" else 4))
    await serving.stop()

    answered = {result["call_id"] for result in broker.results}
    assert broker.committed.offset == 12
    if delivery == "at_least_once":
        assert min(deeds.ran.values()) >= 1
        assert answered == set(calls)
    else:
        assert set(deeds.ran.values()) == {1}
        assert len(answered) == 4


async def test_a_call_that_takes_long_holds_up_no_claim_and_nothing_behind_it_runs_again() -> None:
    broker, slow, fast = Broker(), Deeds(), Deeds("at_most_once")
    fast.may_end.set()
    tools = slow.toolset
    ran: Counter[str] = Counter()

    @tools.tool(delivery="at_most_once")
    async def once(name: str) -> str:
        ran[name] += 1
        return name

    broker.put(call_body("slow"), *(call_body(f"o-{n}", "once") for n in range(20)))
    serving = Serving(tools, broker)
    await until(lambda: len(broker.results) == 20)
    await serving.kill()

    assert broker.committed.offset == 0
    slow.may_end.set()
    serving = Serving(tools, broker)
    await until(lambda: len(broker.results) == 21)
    await serving.stop()

    assert set(ran.values()) == {1}
    assert slow.ran == {"slow": 2}
    assert broker.committed.offset == 21


async def test_what_cannot_be_claimed_does_not_run() -> None:
    """As in a server that does not know yet that it lost the partition."""
    broker, deeds = Broker(), Deeds("at_most_once")
    deeds.may_end.set()
    broker.refuse_commits = True
    broker.put(call_body("c-1"))
    serving = Serving(deeds.toolset, broker)

    await until(lambda: serving.server.counts["not_claimed"])
    await serving.stop()

    assert deeds.ran == {}
    assert broker.answers == []


async def test_an_answer_is_sent_again_while_the_broker_does_not_take_it() -> None:
    broker, deeds = Broker(), Deeds()
    deeds.may_end.set()
    broker.down = 1
    broker.put(call_body("c-1"))
    serving = Serving(deeds.toolset, broker)

    await serving.stop_once_answered()

    assert deeds.ran == {"c-1": 1}


async def test_signs_of_life_renew_the_time_and_precede_the_result() -> None:
    broker = Broker()
    tools = Toolset("deeds")

    @tools.tool(timeout_s=0.2)
    async def act(name: str, call: ToolCall) -> str:
        async with call.heartbeat(f"{name} goes on"):
            while len([a for a in broker.answers if a["kind"] == "tool_progress"]) < 6:
                await asyncio.sleep(0.001)
        call.note("the bank was slow")
        call.cost(300)
        call.cost(399.5)
        return call.id

    broker.put(call_body("c-1"))
    serving = Serving(tools, broker)
    await serving.stop_once_answered()

    *progress, result = broker.answers
    assert [one["n"] for one in progress] == list(range(1, len(progress) + 1))
    assert {one["note"] for one in progress} == {"c-1 goes on"}
    assert result["outcome"] == {"kind": "ok", "value": "c-1"}
    assert result["notes"] == ["the bank was slow"]
    assert result["micro_usd"] == 700


@pytest.mark.parametrize("cost", [-1, float("nan"), True, "3"])
async def test_what_cannot_be_a_cost_is_a_fault_of_the_tool(cost: Any) -> None:
    broker, tools = Broker(), Toolset("deeds")

    @tools.tool()
    async def act(name: str, call: ToolCall) -> str:
        call.cost(cost)
        return name

    broker.put(call_body("c-1"))
    serving = Serving(tools, broker)
    await serving.stop_once_answered()

    assert broker.results[0]["outcome"]["code"] == "crashed"


async def test_a_server_whose_threads_all_hang_ends_itself() -> None:
    broker, release = Broker(), threading.Event()
    tools = Toolset("deeds")

    @tools.tool(timeout_s=0.05)
    def act(name: str) -> str:
        release.wait()
        return name

    broker.put(*(call_body(f"c-{number}") for number in range(3)))
    serving = Serving(tools, broker, concurrency=2)

    with pytest.raises(ServerStuckError):
        await asyncio.wait_for(serving.task, 30)
    release.set()

    assert {result["outcome"]["code"] for result in broker.results} == {"timed_out"}
    assert broker.committed.offset == 2


async def test_a_stopped_server_lets_what_runs_end_and_leaves_the_rest() -> None:
    broker, deeds = Broker(), Deeds()
    broker.put(*(call_body(f"c-{number}") for number in range(3)))
    serving = Serving(deeds.toolset, broker, concurrency=1)
    await until(lambda: deeds.ran)
    serving.server.stop()
    deeds.may_end.set()

    await asyncio.wait_for(serving.task, 30)

    assert deeds.ran == {"c-0": 1}
    assert [result["call_id"] for result in broker.results] == ["c-0"]
    again = Serving(deeds.toolset, broker)
    await until(lambda: len(broker.results) == 3)
    await again.stop()


async def test_a_partition_that_comes_back_leaves_undone_what_still_runs() -> None:
    """Or a crash from then on would lose the call."""
    broker, deeds = Broker(), Deeds()
    broker.put(call_body("c-1"))
    serving = Serving(deeds.toolset, broker)
    await until(lambda: deeds.ran)

    await serving.server.claims.revoked([0])
    serving.channel.seek(broker.committed.offset)
    serving.server.claims.assigned({0: broker.committed})
    await until(lambda: serving.server.counts["repeated"])
    await serving.server.claims.commit()
    assert broker.committed.offset == 0
    deeds.may_end.set()
    await serving.stop_once_answered()

    assert deeds.ran == {"c-1": 1}
    assert broker.committed.offset == 1


async def test_a_call_that_waits_is_claimed_for_the_partition_that_came_back() -> None:
    broker, deeds = Broker(), Deeds("at_most_once")
    broker.put(call_body("c-1"), call_body("c-2"))
    serving = Serving(deeds.toolset, broker, concurrency=1)
    await until(lambda: deeds.ran == {"c-1": 1})

    await serving.server.claims.revoked([0])
    serving.channel.seek(broker.committed.offset)
    serving.server.claims.assigned({0: broker.committed})
    await until(lambda: serving.server.counts["repeated"])
    deeds.may_end.set()
    await until(lambda: len(broker.results) == 2)
    await serving.stop()

    assert deeds.ran == {"c-1": 1, "c-2": 1}
    assert broker.committed.offset == 2


async def test_a_call_that_stands_twice_is_claimed_twice() -> None:
    """Or the second record would run it again after a crash."""
    broker, deeds = Broker(), Deeds("at_most_once")
    broker.put(call_body("first"), call_body("c-1"), call_body("c-1"))
    serving = Serving(deeds.toolset, broker, concurrency=1)
    await until(lambda: serving.server.counts["repeated"])
    deeds.may_end.set()
    await until(lambda: deeds.ran["c-1"])
    await serving.kill()

    serving = Serving(deeds.toolset, broker)
    broker.put(call_body("last"))
    await until(lambda: "last" in {result["call_id"] for result in broker.results})
    await serving.stop()

    assert set(deeds.ran.values()) == {1}
