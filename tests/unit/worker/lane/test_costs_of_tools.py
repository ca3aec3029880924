"""The cost that a tool names is charged to the account of its run, once and within the budget."""

from dataclasses import replace
from typing import Any, cast

import pytest

from answerbus.private.ledger import AccountRecord
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, RESULTS
from services.worker.planning.planner import Backend
from tests.tariffs import flat
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import WORKFLOW, Json, RunStage, RunWorker, ToolServers
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import events, until

COST = 700
LIMIT = 1_000_000


class PricedStage(RunStage):
    """Tools name what they cost, and a token of the model costs a micro-dollar."""

    cost: Any = COST
    times = 1

    def new_worker(self) -> RunWorker:
        made = super().new_worker()
        backends = cast("dict[str, Backend]", made.context.planner.backends)
        facts = backends["default"].facts
        backends["default"] = replace(backends["default"], facts=replace(facts, tariff=flat(1, 1)))
        answer = ToolServers(self.broker).answer

        def priced(event: Json, outcome: Json) -> None:
            for _ in range(self.times):
                answer(event, outcome, micro_usd=self.cost)

        self.tools.answer = priced  # type: ignore[method-assign,assignment]
        return made

    @property
    def account(self) -> AccountRecord:
        records = self.broker.log(LEDGER, 0).records
        key = f"account:{WORKFLOW}".encode()
        found = [record.value for record in records if record.key == key and record.value]
        return AccountRecord.model_validate_json(found[-1])


async def priced(cost: Any = COST, times: int = 1, micro_usd: int | None = LIMIT) -> PricedStage:
    stage = PricedStage()
    stage.cost, stage.times = cost, times
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 10, "micro_usd": micro_usd})
    return stage


def of_models(stage: PricedStage) -> int:
    return sum(attempt["charged"]["micro_usd"] for attempt in events(stage.broker, ATTEMPTS))


@pytest.mark.parametrize(("times", "micro_usd"), [(1, LIMIT), (1, None), (2, LIMIT)])
@on_virtual_time
async def test_it_is_charged_once_and_the_next_attempt_says_so(
    times: int, micro_usd: int | None
) -> None:
    stage = await priced(times=times, micro_usd=micro_usd)
    await finished(stage)

    (result,) = events(stage.broker, RESULTS)
    ended = stage.steps("tool_ended")
    tools = COST * len(ended)
    assert [one["micro_usd"] for one in ended] == [COST] * len(ended)
    assert result["account"]["spent"]["micro_usd"] == of_models(stage) + tools
    assert result["run"]["usage"]["micro_usd"] == of_models(stage) + tools
    said = [one.get("tools_micro_usd", 0) for one in events(stage.broker, ATTEMPTS)]
    assert sum(said) == tools
    assert said[0] == 0
    assert stage.account.tools_micro_usd == 0
    assert not any("µ$" in note for note in result["notes"])


@on_virtual_time
async def test_no_more_is_charged_than_is_left_and_no_model_is_asked_after_it() -> None:
    stage = await priced(cost=10 * LIMIT)
    await finished(stage)

    (dead_letter,) = events(stage.broker, DEAD_LETTERS)
    charged = [ended["micro_usd"] for ended in stage.steps("tool_ended")]
    assert dead_letter["cause"] == {"kind": "budget_exhausted", "which": "micro_usd"}
    assert dead_letter["account"]["spent"]["micro_usd"] == LIMIT
    left = LIMIT - of_models(stage)
    assert charged == [left, *(0 for _ in charged[1:])]
    note = f"a tool cost {10 * LIMIT:,} µ$: {left:,} µ$ were left in the budget, and charged"
    assert note in dead_letter["notes"]
    assert len(stage.provider.prompts) == 1
    assert stage.account.tools_micro_usd == left  # no attempt has said it


@on_virtual_time
async def test_what_was_charged_outlives_its_worker() -> None:
    stage = await priced()
    await until(lambda: stage.steps("tool_ended") != [])
    await stage.crash()
    await stage.worker.open()
    await finished(stage)

    tools = COST * len(stage.steps("tool_ended"))
    assert stage.account.spent.micro_usd == of_models(stage) + tools


@pytest.mark.parametrize("cost", [-1, "7", True])
@on_virtual_time
async def test_a_cost_that_cannot_be_is_left_out_with_a_note(cost: Any) -> None:
    stage = await priced(cost=cost)
    await finished(stage)

    (result,) = events(stage.broker, RESULTS)
    assert result["account"]["spent"]["micro_usd"] == of_models(stage)
    note = "left out of a tool's result, since they were wrong: `/micro_usd`"
    assert note in result["notes"]


@on_virtual_time
async def test_a_cost_of_more_than_a_thousand_dollars_counts_as_that() -> None:
    stage = await priced(cost=10**12, micro_usd=None)
    await finished(stage)

    (result,) = events(stage.broker, RESULTS)
    charged = [ended["micro_usd"] for ended in stage.steps("tool_ended")]
    assert charged == [10**9 for _ in charged]
    assert result["account"]["spent"]["micro_usd"] == of_models(stage) + sum(charged)
    most = "1,000,000,000 µ$"
    note = f"a tool named a cost that is no whole number up to {most}: it counts as {most}"
    assert note in result["notes"]
