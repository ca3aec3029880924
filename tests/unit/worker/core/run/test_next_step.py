"""What the next step of a run is asked as: nothing told before changes, old results get short."""

import json

import pytest
from pydantic import JsonValue

from answerbus.agent import AgentRef
from answerbus.cause import MissingTools, UnknownAgent
from services.worker.core.run import transcript as told_by
from services.worker.core.run import transitions
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.repeats import must_finish
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import (
    FINISH_FORM,
    RESULTS_ARE_IN,
    TEXT_FORM,
    transcript,
    write_messages,
)
from tests.unit.worker.core.run_builders import (
    asked,
    call,
    definition,
    inputs,
    result,
    says,
    sent,
    taken,
    thinks,
    tool,
)


def grown(run: Run, steps: int, value: JsonValue = "done", order: str | None = None) -> Run:
    """The run after so many more steps, each with one call that was answered."""
    for number in range(len(run.steps), len(run.steps) + steps):
        change = taken(run, thinks("CANARY"), says("So."), call(order_id=order or str(number)))
        run = change.run
        for made in sent(change):  # an equal one is answered with the step
            ended = transitions.on_result(run, result(made, value), inputs())
            assert ended is not None
            run = ended.run
    return run


def texts(run: Run, *, finish: bool = False) -> list[str]:
    messages = next_step_request(asked(), run, must_finish=finish).context.messages
    return [f"{message.role} {message.trust}: {message.content}" for message in messages]


def test_each_step_is_shown_as_words_of_the_model_and_each_result_as_data() -> None:
    reported = texts(grown(Run(definition()), 1))

    assert reported == [
        (
            'assistant trusted: {"actions": [{"kind": "text_response", "content": "So."}, '
            '{"kind": "tool_call", "name": "orders.get", "args": {"order_id": "0"}}]}'
        ),
        'user untrusted: orders.get: {"kind": "ok", "value": "done"}',
        "user trusted: " + RESULTS_ARE_IN.format(end=TEXT_FORM),
    ]


def test_a_run_with_a_schema_is_asked_to_end_with_finish() -> None:
    typed = asked(answer_schema={"kind": "contract", "name": "selection", "version": 1})
    run = grown(Run(definition()), 1)
    (*_, last) = next_step_request(typed, run, must_finish=False).context.messages

    assert last.content == RESULTS_ARE_IN.format(end=FINISH_FORM)


def test_no_thought_is_in_a_later_prompt_unless_the_agent_remembers_them() -> None:
    assert "CANARY" not in "".join(texts(grown(Run(definition()), 3)))
    assert "CANARY" in "".join(texts(grown(Run(definition(remember_thoughts=True)), 3)))


def test_what_was_shown_stays_and_what_is_new_comes_behind_it() -> None:
    run = Run(definition())
    before: list[str] = []
    for _ in range(6):
        run = grown(run, 1)
        reported = texts(run)
        assert reported[: len(before)] == before
        before = reported


def test_a_step_is_told_in_later_prompts_as_it_was_written_once() -> None:
    """A run may have 3,200 results of 18,000 values each, and a hundred steps are told of them."""
    run = grown(Run(definition(transcript_bytes_max=10_000)), 4, "x" * 3_000)
    told = [*write_messages(run)]
    later = grown(run, 1)

    assert len(told) == 8
    assert all(one is known for one, known in zip(told, write_messages(later), strict=False))
    shown = {*map(id, transcript(later).messages)}
    assert shown >= {id(one.message) for one in told if one.head is None}
    assert shown & {id(one.short.message) for one in told if one.head}


def test_steps_are_compared_once_with_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 steps of which each two have the same 32 large results took a second, each time."""
    run, asked_for = grown(Run(definition()), 6, order="1"), list[int]()
    before = texts(run)
    monkeypatch.setattr(told_by, "remark_after", lambda _, count, *__: asked_for.append(count))

    assert texts(run)[:-1] == before[:-1]
    assert asked_for == [6]


def test_an_end_that_was_not_committed_is_told_no_more() -> None:
    change = taken(Run(definition()), call(order_id="1"))
    (made,) = sent(change)
    assert change.run.messages == {}
    ends = [transitions.on_result(change.run, result(made, value), inputs()) for value in (1, 2)]

    assert [texts(end.run)[1][-3:] for end in ends if end] == [" 1}", " 2}"]


def test_the_last_step_says_so() -> None:
    run = grown(Run(definition(steps_max=2)), 1)

    assert must_finish(run)
    assert "last step" in texts(run, finish=True)[-1]


def test_old_results_are_shown_by_size_and_digest_and_stay_so() -> None:
    run = Run(definition(transcript_bytes_max=10_000, steps_max=100))
    gone: set[int] = set()
    for _ in range(20):
        run = grown(run, 1, "x" * 1_500)
        reported = texts(run)
        elided = {n for n, text in enumerate(reported) if '"kind": "elided"' in text}
        assert gone <= elided
        assert sum(len(message.content) for message in transcript(run).messages) <= 10_000
        gone = elided
    assert gone
    shown = json.loads(texts(run)[1].partition(": ")[2].partition(": ")[2])
    assert shown.keys() == {"kind", "bytes", "digest"}


@pytest.mark.parametrize("repeatable", [False, True])
def test_the_same_calls_again_and_again_are_remarked_and_then_end(repeatable: bool) -> None:
    run = grown(Run(definition(tool(repeatable=repeatable))), 1, order="1")
    assert "same calls" not in texts(run)[-1]

    run = grown(run, 1, order="1")

    assert "the same calls in 2 steps" in texts(run)[-1]
    assert texts(run)[-1].endswith(f"Answer now with {TEXT_FORM}.")
    assert not must_finish(run)

    run = grown(run, 3, order="1")

    assert must_finish(run)
    assert not must_finish(grown(run, 1, order="2"))


def test_the_same_calls_that_end_otherwise_are_not_remarked() -> None:
    """A model may wait for something by asking for its state."""
    run = Run(definition(tool(repeatable=True)))
    for state in ("queued", "queued", "running", "done"):
        run = grown(run, 1, state, order="1")
    remarks = [text for text in texts(run) if "same calls" in text]

    assert len(remarks) == 1, "of the two that said the same"


# Agents.

TOOLS = {one.name: one for one in (tool("orders.get"), tool("orders.pay"))}
AGENTS = Agents(
    [
        Agent(definition().model_copy(update={"tools": ()}), ("orders.get",)),
        Agent(
            definition().model_copy(update={"tools": (), "version": 2}),
            ("orders.get", "orders.pay"),
            {"orders.pay": "always"},
        ),
        Agent(definition().model_copy(update={"tools": (), "version": 10}), ("orders.rm",)),
    ]
)


def test_the_newest_version_is_asked_unless_the_request_says_which() -> None:
    assert AGENTS.freeze(AgentRef(name="support"), TOOLS) == MissingTools(tools=("orders.rm",))
    frozen = AGENTS.freeze(AgentRef(name="support", version=2), TOOLS)
    assert not isinstance(frozen, UnknownAgent | MissingTools)
    assert [(one.name, one.card.approval) for one in frozen.tools] == [
        ("orders.get", "never"),
        ("orders.pay", "always"),
    ]


def test_a_request_can_only_leave_tools_out() -> None:
    some = AgentRef(name="support", version=2, tools=("orders.get",))
    other = AgentRef(name="support", version=1, tools=("orders.pay",))

    frozen = AGENTS.freeze(some, TOOLS)
    assert not isinstance(frozen, UnknownAgent | MissingTools)
    assert [one.name for one in frozen.tools] == ["orders.get"]
    assert AGENTS.freeze(other, TOOLS) == UnknownAgent()


def test_who_is_not_known_is_reported() -> None:
    assert AGENTS.freeze(AgentRef(name="nobody"), TOOLS) == UnknownAgent()
    assert AGENTS.freeze(AgentRef(name="support", version=3), TOOLS) == UnknownAgent()


def test_a_run_has_the_budget_of_its_agent_unless_it_names_one() -> None:
    assert AGENTS.with_budget(asked()).budget.attempts == 20
    assert AGENTS.with_budget(asked(budget={"attempts": 2})).budget.attempts == 2
