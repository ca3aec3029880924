"""What the next step of a run can cost, and whether its prompt fits into what a model reads."""

import asyncio
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from answerbus.budget import Usage
from answerbus.cause import RunExhausted
from answerbus.client import turns
from answerbus.failure import Malformed
from answerbus.private.runs import Delegation
from answerbus.registry import Registry
from answerbus.request import Prior
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.run import transitions
from services.worker.core.run.agents import Agents
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import transcript
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, Planner
from tests.cost.budget import spent
from tests.cpu_time import cpu_time
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    asked,
    call,
    definition,
    inputs,
    result,
    says,
    sent,
    step,
)
from tests.unit.worker.lane.world import FakeProvider

pytestmark = pytest.mark.wide

FACTS = ProfileFacts("default", "fake", "m", 100, 60.0, None)
OUTPUT = FACTS.max_output_tokens


def counted(prompt: Prompt) -> int:
    """By a model that makes a token of four bytes, as most do of English."""
    texts = [prompt.system, *(turn.text for turn in prompt.turns)]
    return sum(len(text.encode()) for text in texts) // 4


def plan_of(run: Run, facts: ProfileFacts = FACTS) -> Plan | Any:
    backend = Backend(facts, "prompted", FakeProvider(), ProfileLimiter(1))
    planner = Planner({"default": backend}, Registry(), agents=Agents())
    return asyncio.run(planner.plan_step(asked(), run, is_last_attempt=False))


def prompt_of(run: Run, facts: ProfileFacts = FACTS) -> Prompt:
    plan = plan_of(run, facts)
    assert isinstance(plan, Plan)
    return plan.prompt(asked(), ())


Count = Callable[[Prompt], int | None]


def answered_by_a_call(
    run: Run, prompt: Prompt, value: str, count: Count = counted, facts: ProfileFacts = FACTS
) -> Run:
    """The run once the answer to a prompt has called a tool, which gave `value`."""
    attempt = len(run.steps) + 1
    answer = step(run.definition, says("So."), call(order_id=str(attempt)))
    usage = Usage(input_tokens=count(prompt), output_tokens=5)
    around = replace(inputs(), model=facts.model_id, frame=prompt.frame)
    change = transitions.take_step(run, answer, attempt, usage, Usage(), ACCOUNT, around)
    (made,) = sent(change)
    ended = transitions.on_result(change.run, result(made, value), inputs())
    assert ended is not None
    return ended.run


def steps(
    values: list[str], count: Count = counted, facts: ProfileFacts = FACTS, **agent: Any
) -> Iterator[tuple[Run, Prompt]]:
    """A run before each of its steps, and how that step is asked."""
    run = Run(definition(**agent))
    for value in values:
        prompt = prompt_of(run, facts)
        yield run, prompt
        run = answered_by_a_call(run, prompt, value, count, facts)
    yield run, prompt_of(run, facts)


def bytes_of(prompt: Prompt) -> int:
    return replace(prompt, counted_max=None).tokens_max


# What a step can cost.


def test_a_step_reserves_what_was_counted_and_each_byte_that_is_new() -> None:
    (_, first), *middle, (_, last) = steps(["a result of a tool " * 50] * 10)

    assert first.tokens_max == bytes_of(first)
    for _, prompt in middle:
        assert counted(prompt) + OUTPUT <= prompt.tokens_max
    assert counted(last) + OUTPUT <= last.tokens_max < bytes_of(last) / 2


def test_where_tokens_are_bytes_no_more_is_used_than_was_reserved() -> None:
    """The worst tokeniser that there can be, with a result that is shortened now and then."""

    def each_byte(prompt: Prompt) -> int:
        return len("".join([prompt.system, *(turn.text for turn in prompt.turns)]).encode())

    for _, prompt in steps(
        ["é" * 1_000] * 20, each_byte, transcript_bytes_max=15_000, steps_max=100
    ):
        assert each_byte(prompt) + OUTPUT <= prompt.tokens_max


def test_the_last_step_has_another_schema_which_is_counted_whole() -> None:
    *_, (_, before), (_, last) = steps(["x" * 2_000] * 3, steps_max=4)

    assert last.frame != before.frame
    assert counted(last) + OUTPUT <= last.tokens_max < bytes_of(last)


@pytest.mark.parametrize("count", [lambda _: None, lambda _: 0])
def test_a_provider_that_counts_nothing_is_asked_at_the_worst_case(count: Count) -> None:
    *_, (_, last) = steps(["x" * 500] * 3, count)

    assert last.tokens_max == bytes_of(last)


def test_what_another_model_has_counted_says_nothing() -> None:
    *_, (run, last) = steps(["x" * 500] * 3)

    assert last.tokens_max < bytes_of(last)
    for other in (replace(FACTS, model="n"), replace(FACTS, provider="other")):
        assert prompt_of(run, other).tokens_max == bytes_of(last)


def test_a_retry_of_a_step_reserves_what_it_tells_more() -> None:
    *_, (run, last) = steps(["x" * 500] * 3)
    again = plan_of(run).prompt(
        asked(), (Prior(attempt=4, failure=Malformed(position=0, excerpt=""), answer="x" * 200),)
    )

    assert last.tokens_max < again.tokens_max < bytes_of(again)
    assert again.tokens_max - last.tokens_max >= counted(again) - counted(last)


# What a model reads at once.


def elided(prompt: Prompt) -> int:
    return "".join(turn.text for turn in prompt.turns).count('"kind": "elided"')


@pytest.mark.parametrize("count", [counted, lambda _: None])
def test_prompts_stay_within_what_the_model_reads_at_once(count: Count) -> None:
    facts = replace(FACTS, context_tokens=12_000)
    gone = 0
    for _, prompt in steps(["a result of a tool " * 100] * 30, count, facts, steps_max=100):
        assert counted(prompt) + OUTPUT <= 12_000
        assert elided(prompt) >= gone
        gone = elided(prompt)
    assert gone > 10


def test_without_such_a_limit_nothing_is_shortened() -> None:
    assert sum(elided(prompt) for _, prompt in steps(["a result " * 60] * 20, steps_max=100)) == 0


def test_the_newest_result_is_shown_whole_while_there_is_room_for_it() -> None:
    facts = replace(FACTS, context_tokens=4_000)
    *_, (_, prompt) = steps(["old " * 500] * 5 + ["new " * 500], facts=facts, steps_max=100)

    assert elided(prompt) > 0
    assert "new new" in prompt.turns[-1].text


def test_a_result_that_no_prompt_has_room_for_is_shown_by_its_digest() -> None:
    facts = replace(FACTS, context_tokens=2_000)
    *_, (_, prompt) = steps(["x" * 60_000], facts=facts)

    assert elided(prompt) == 1
    assert counted(prompt) + OUTPUT <= 2_000


def test_a_run_that_fits_no_more_ends() -> None:
    *_, (run, _) = steps(["x" * 500] * 3)

    assert isinstance(plan_of(run, replace(FACTS, context_tokens=300)), RunExhausted)


def test_half_of_what_a_model_reads_is_for_the_prompt_whatever_an_answer_may_have() -> None:
    assert FACTS.input_tokens is None
    assert replace(FACTS, context_tokens=4_096).input_tokens == 3_996
    assert replace(FACTS, context_tokens=4_096, max_output_tokens=4_096).input_tokens == 2_048


async def test_other_tasks_have_their_turn_while_large_results_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step of 32 results of 17,000 values took 0.15 s, and again in each later step."""
    monkeypatch.setattr(turns, "TURN_S_MAX", 0.001)  # all of it may take 0.01 s
    run, gaps = Run(definition(parallel_max=32)), list[float]()
    answer = step(run.definition, *(call(order_id=str(number)) for number in range(32)))
    change = transitions.take_step(run, answer, 1, Usage(), Usage(), ACCOUNT, inputs())
    run = change.run
    for made in sent(change):
        ended = transitions.on_result(run, result(made, [0] * 17_000), inputs())
        assert ended is not None
        run = ended.run
    backend = Backend(FACTS, "prompted", FakeProvider(), ProfileLimiter(1))
    planner = Planner({"default": backend}, Registry(), agents=Agents())
    await planner.plan_step(asked(), Run(definition()), is_last_attempt=False)  # which compiles

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - before)

    at_once = spent(lambda: transcript(replace(run)))
    with cpu_time():
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        assert isinstance(await planner.plan_step(asked(), run, is_last_attempt=False), Plan)
        await asyncio.sleep(0)
        ticking.cancel()

    assert max(gaps) < at_once.spent_s * 0.8


@pytest.mark.parametrize(
    ("facts", "results", "is_named"),
    [([], 0, False), ([], 1, True), ([{"name": "timetable", "value": "8:00"}], 0, True)],
)
def test_use_is_named_once_there_is_something_to_give_a_child(
    facts: list[Any], results: int, is_named: bool
) -> None:
    """A small model names anything there, and its call ends as `invalid_args`."""
    run = Run(definition(delegate=Delegation()))
    for _ in range(results):
        change = transitions.take_step(
            run, step(run.definition, call()), 1, Usage(), Usage(), ACCOUNT, inputs()
        )
        (made,) = sent(change)
        ended = transitions.on_result(change.run, result(made), inputs())
        assert ended is not None
        run = ended.run
    context = {"instructions": "Plan it.", "facts": facts}
    planner = Planner(
        {"default": Backend(FACTS, "llama_cpp", FakeProvider(), ProfileLimiter(1))},
        Registry(),
        agents=Agents(),
    )
    request = asked(context=context)
    plan = asyncio.run(planner.plan_step(request, run, is_last_attempt=False))

    assert isinstance(plan, Plan)
    assert ('"use":' in plan.wire.text) is is_named
    assert ("`use`" in plan.prompt(request, ()).system) is is_named
    assert "delegate" in plan.wire.text


# What was asked before is kept.


def planner_for(facts: ProfileFacts) -> Planner:
    backend = Backend(facts, "prompted", FakeProvider(), ProfileLimiter(1))
    return Planner({"default": backend}, Registry(), b"secret", agents=Agents())


def asked_by(planner: Planner, run: Run) -> Prompt:
    plan = asyncio.run(planner.plan_step(asked(), run, is_last_attempt=False))
    assert isinstance(plan, Plan)
    return plan.prompt(asked(), ())


def test_a_step_is_asked_as_by_a_worker_that_has_not_asked_before() -> None:
    """Whatever was kept of the steps before it; also where results are shortened."""
    facts = replace(FACTS, context_tokens=9_000)
    planner, run = planner_for(facts), Run(definition(transcript_bytes_max=20_000, steps_max=100))
    for number in range(30):
        prompt = asked_by(planner, run)
        of_records = Run(run.definition, run.steps, run.calls, run.link)
        first = asked_by(planner_for(facts), of_records)

        assert replace(prompt, wire=first.wire) == first
        assert (prompt.digest, prompt.wire.text) == (first.digest, first.wire.text)
        run = answered_by_a_call(run, prompt, "é" * (number * 137 % 1_300), facts=facts)
    assert elided(prompt) > 0


def test_what_a_prompt_was_made_of_is_not_kept_with_it_when_its_run_is_over() -> None:
    """Results take many times the bytes of their texts, which are all that is counted."""
    planner, run = planner_for(FACTS), Run(definition(transcript_bytes_max=20_000))
    for _ in range(4):
        run = answered_by_a_call(run, asked_by(planner, run), "x" * 9_000)
    asked_by(planner, run)
    kept: list[Any] = [run.definition, *run.steps, *run.calls.values()]
    kept += [record.outcome for record in run.calls.values()]
    last = [*map(weakref.ref, kept)]

    del run, kept
    gc.collect()

    assert [found for one in last if (found := one()) is not None] == []


def test_a_result_that_was_not_committed_is_not_shown() -> None:
    """The same call may end in another way once the lane is opened again."""
    planner, run = planner_for(FACTS), Run(definition())
    for number in range(2):
        asked_by(planner, run)
        answer = step(run.definition, call(order_id=str(number)))
        change = transitions.take_step(run, answer, number + 1, Usage(), Usage(), ACCOUNT, inputs())
        (made,) = sent(change)
        ends = [
            transitions.on_result(change.run, result(made, value), inputs())
            for value in ("one", "other")
        ]
        runs = [end.run for end in ends if end]
        shown = [asked_by(planner, one).turns[-1].text for one in runs]

        assert [('"one"' in text, '"other"' in text) for text in shown] == [
            (True, False),
            (False, True),
        ]
        run = runs[-1]
