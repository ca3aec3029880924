"""The benchmark of agents: what the stub answers to a step, and what is read off its journal."""

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.agents.acting import END_TEXT, Plan, acting
from tests.benchmarks.agents.entrant import Driven, Effect, gaps_ms
from tests.benchmarks.agents.product import agent_toml, run_body
from tests.benchmarks.agents.rivals import read_notes
from tests.benchmarks.agents.run_kills import unsettled
from tests.benchmarks.agents.toolset import bench
from tests.benchmarks.arithmetic import Span
from tests.benchmarks.journal import Call
from tests.benchmarks.latency import Latency
from tests.benchmarks.stub import Stub, beginning

END = {"ended": "a", "at": 1.0}
PLAN = Plan(2, ("echo", "straggle"))


def answered(messages: list[dict[str, Any]], **more: Any) -> tuple[dict[str, Any], bool]:
    body = json.dumps({"model": "stub", "messages": messages, **more}).encode()
    acted = acting(PLAN)(body, b"r-1")
    message: dict[str, Any] = json.loads(acted.content)["choices"][0]["message"]
    return message, acted.is_end


def turns(number: int) -> list[dict[str, Any]]:
    asked = [{"role": "user", "content": 'Say {"role": "assistant"} to nothing.'}]
    return asked + [{"role": "assistant", "content": "…"}] * number


def test_each_step_calls_the_tools_of_the_plan_and_the_last_one_none() -> None:
    message, is_end = answered(turns(1))
    last, ended = answered(turns(2))

    actions = json.loads(message["content"])["actions"]
    assert [action["name"] for action in actions] == ["bench.echo", "bench.straggle"]
    assert actions[0]["args"] == {"run": "r-1", "number": 2}
    assert json.loads(last["content"])["actions"] == [
        {"kind": "text_response", "content": END_TEXT}
    ]
    assert (is_end, ended) == (False, True)


def test_who_offers_tools_gets_calls_in_the_manner_of_chat_completions() -> None:
    message, _ = answered(turns(0), tools=[{"type": "function"}])
    last, _ = answered(turns(2), tools=[{"type": "function"}])

    names = [call["function"]["name"] for call in message["tool_calls"]]
    assert names == ["echo", "straggle"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"])["number"] == 1
    assert "tool_calls" not in last
    assert last["content"] == END_TEXT


async def test_the_stub_counts_the_runs_that_have_had_their_answer(tmp_path: Path) -> None:
    stub = Stub(0)
    await stub.carry_out(beginning(tmp_path / "calls", Latency("instant"), 1, PLAN))

    for number in (0, 1, 2):
        stub.response_to(json.dumps({"messages": turns(number)}).encode(), b"r-1")

    assert (await stub.carry_out({"do": "stats"}))["ended"] == 1
    await stub.carry_out(beginning(tmp_path / "more", Latency("instant"), 1))
    assert stub.act is None
    stub.close()


def test_what_is_added_is_between_two_calls_of_one_run() -> None:
    calls = [
        Call("a", Span(0.0, 1.0), 200),
        Call("b", Span(0.5, 2.0), 200),
        Call("a", Span(1.25, 2.0), 200),
        Call("b", Span(2.5, 3.0), 200),
    ]

    assert gaps_ms(calls) == [250.0, 500.0]
    assert gaps_ms(calls, Span(2.0, 3.0)) == [500.0]


def test_at_a_kill_a_call_is_unsettled_whose_step_has_shown_nothing() -> None:
    calls = [Call(run, Span(0.0, 1.0), 200) for run in ("done", "young", "ended")]
    calls += [Call("twice", Span(0.0, 1.0), 200), Call("twice", Span(2.0, 9.0), 0)]
    effects = [Effect("done", 1, 2.0), Effect("young", 1, 6.0), Effect("twice", 1, 1.5)]

    assert unsettled(calls, effects, {"ended": 3.0}, 5.0) == 2  # of `young`, and of `twice`
    assert unsettled(calls, effects, {"ended": 3.0}, 1.8) == 3  # all but `twice`
    assert Effect.of_line("r-1 2 3.5") == Effect("r-1", 2, 3.5)


def test_a_caller_that_was_killed_leaves_what_it_noted_whole(tmp_path: Path) -> None:
    notes, driven = tmp_path / "notes", Driven()
    lines = [{"started": "a"}, {"started": "b"}, END, END, {"failed": "b"}]
    notes.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"ended": "')

    read_notes(notes, driven)

    assert (driven.started, driven.ended_at, driven.doubled, driven.lost) == (2, {"a": 1.0}, 1, 1)


def test_the_agent_may_call_each_tool_of_the_toolset() -> None:
    assert all(f'"{bench.name}.{name}"' in agent_toml() for name in bench.tools)
    assert run_body("r-1", "w-1", 100)["context"]["messages"][0]["content"] == "x" * 100
