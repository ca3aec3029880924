"""Fallbacks on virtual time: who is asked, when, and what stands in the outcome."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from answerbus.event import EVENT
from answerbus.partition import partition_of
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.registry import Registry
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEASES, REFUSALS, RESULTS, RETRIES
from services.telemetry.metrics import FALLBACK_CALLS as FALLBACKS
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.core.attempt.fallback import Condition, Fallback
from services.worker.core.attempt.reply import (
    Refused,
    Rejected,
    Reply,
    Throttled,
    Truncated,
    Unavailable,
)
from services.worker.core.run.agents import Agents
from services.worker.core.shared_budget.rules import BudgetRules, PeriodLimits
from services.worker.lane.state.signals import SignalRecord
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import BackendChange
from tests.tariffs import flat
from tests.unit.worker.builders import PARTITIONS, answered, workflow_of
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, audit, events, terminals, until

pytestmark = pytest.mark.wide

UNHEALTHY, THROTTLED = Condition("unhealthy"), Condition("throttled", 20.0)
INVALID_TWICE, CUT, REFUSED = Condition("invalid", 2), Condition("truncated"), Condition("refused")
ALL = (UNHEALTHY, THROTTLED, INVALID_TWICE, CUT, REFUSED)
NUMBER = {
    "kind": "inline",
    "name": "number",
    "wrapped": False,
    "json_schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
}
GOOD, WRONG = answered('{"n": 1}'), answered('{"n": "one"}')
NO_CONNECTION = Unavailable(None, ran=False)


def always(reply: Reply, takes_s: float = 0.1) -> FakeProvider:
    return FakeProvider(lambda *_: (takes_s, reply))


async def lanes_speak(worker: Worker) -> None:
    """What the lane, which is the home of the budget as well, says to itself."""
    heard = 0
    while True:
        for said in events(worker.broker, LEASES)[heard:]:
            heard += 1
            signal = EVENT.validate_python(said)
            assert isinstance(signal, BudgetLeaseRecord | BudgetShareRecord)
            assert worker.lane.open
            read = SignalRecord(LEASES, heard, "", signal, None)
            worker.lane.on_signals(worker.lane.open, [read])
        await asyncio.sleep(0.01)


class TwoProfiles:
    """`default`, which may fall back to `large`; the journal is that of both."""

    def __init__(
        self,
        small: FakeProvider,
        large: FakeProvider,
        on: tuple[Condition, ...] = ALL,
        slots: int = 100,
        price_of_large: int = 0,
        **settings: Any,
    ) -> None:
        self.small, self.large = small, large
        self.stage = Stage(small, **settings)
        backends = self.stage.context.planner.backends
        assert isinstance(backends, dict)
        known = backends["default"]
        tariff = flat(price_of_large, price_of_large) if price_of_large else None
        fallbacks = (Fallback("large", on),)
        facts = replace(known.facts, fallbacks=fallbacks)
        backends["default"] = replace(known, facts=facts, limiter=ProfileLimiter(slots))
        facts = replace(known.facts, name="large", tariff=tariff)
        backends["large"] = replace(
            known, facts=facts, provider=large, limiter=ProfileLimiter(slots)
        )

    async def run(self) -> None:
        """From the opening of the lane to the end."""
        await self.stage.worker.open()
        await self.end()

    async def end(self) -> None:
        await self.stage.all_done()
        await self.stage.worker.drain()
        both = FakeProvider(calls=[*self.small.calls, *self.large.calls])
        audit(self.stage.broker, both)

    def outcomes(self) -> list[dict[str, Any]]:
        return events(self.stage.broker, RESULTS, REFUSALS, DEAD_LETTERS)

    def asked(self) -> list[str]:
        """The profile of each attempt, as the audit has it."""
        return [attempt["model"]["profile"] for attempt in events(self.stage.broker, ATTEMPTS)]


@pytest.mark.parametrize(
    ("replies", "profiles", "because"),
    [
        ([WRONG, WRONG], ["default", "default", "large"], "invalid >= 2"),
        ([answered("no JSON"), WRONG], ["default", "default", "large"], "invalid >= 2"),
        ([WRONG], ["default", "default"], None),
        ([Truncated(100, GOOD.facts)], ["default", "large"], "truncated"),
        ([Refused("no", GOOD.facts)], ["default", "large"], "refused"),
        ([NO_CONNECTION], ["default", "large"], "unhealthy"),
        ([Throttled(30.0)], ["default", "large"], "throttled > 20s"),
    ],
)
@on_virtual_time
async def test_the_outcome_names_who_answered_and_why(
    replies: list[Reply], profiles: list[str], because: str | None
) -> None:
    small = FakeProvider(lambda _, n: (0.1, [*replies, *[GOOD] * 9][n - 1]))
    both = TwoProfiles(small, always(GOOD))
    both.stage.publish("r-1", answer_schema=NUMBER)
    await both.run()

    [outcome] = both.outcomes()
    assert outcome["kind"] == "result"
    assert both.asked() == profiles
    assert outcome["model"]["profile"] == profiles[-1]
    assert outcome["model"].get("because") == because
    assert outcome["model"].get("instead_of") == (because and "default")
    note = f"profile large was asked in place of default: {because}"
    assert (note in outcome["notes"]) is (because is not None)


@on_virtual_time
async def test_calls_of_a_fallback_are_counted_by_whose_place_it_took_and_why() -> None:
    both = TwoProfiles(always(NO_CONNECTION), always(GOOD))
    measures = MetricsObserver({"default", "large"}, Registry())
    both.stage.worker.context = replace(both.stage.context, observer=measures)
    both.stage.publish("r-1")
    await both.run()

    counted = {labels: n for (m, labels), n in measures.counts.totals.items() if m is FALLBACKS}
    assert counted == {("default", "large", "unhealthy"): 1}


@on_virtual_time
async def test_no_time_is_lost_between_the_two() -> None:
    """Neither the back-off of a retry nor the pause that a provider names."""
    both = TwoProfiles(always(Throttled(30.0)), always(GOOD))
    for number in range(20):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    began = now()
    await both.run()

    first = min(at for _, _, at in both.large.calls)
    assert first - began < 0.5
    assert max(at for _, _, at in both.large.calls) - began < 1


@on_virtual_time
async def test_those_who_wait_for_a_place_are_told_when_their_profile_dies() -> None:
    dies_at = 0.0
    small = FakeProvider(lambda *_: (1.0, GOOD if now() < dies_at else NO_CONNECTION))
    both = TwoProfiles(small, always(GOOD), slots=2)
    await both.stage.worker.open()
    dies_at = now() + 5
    for number in range(40):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await both.end()

    assert set(terminals(both.stage.broker).values()) == {"result"}
    first = min(at for _, _, at in both.large.calls)
    assert 0 < first - dies_at < 2.1  # a call that began before it died takes a second


@on_virtual_time
async def test_one_at_a_time_finds_out_whether_it_is_back() -> None:
    back_at = float("inf")
    small = FakeProvider(lambda *_: (0.1, GOOD if now() > back_at else NO_CONNECTION))
    both = TwoProfiles(small, always(GOOD))
    await both.stage.worker.open()
    back_at = now() + 60
    for number in range(120):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
        await asyncio.sleep(1)
    await both.end()

    tried = [at for _, _, at in both.small.calls if at < back_at]
    assert 3 <= len(tried) <= 12  # after pauses of 1, 2, 4, 8 and 15 s
    assert both.asked()[-20:] == ["default"] * 20


@on_virtual_time
async def test_who_waits_for_a_throttled_profile_goes_on_once_that_will_be_too_long() -> None:
    """After pauses of 1, 2, 4 and 8 s the next one would end beyond the 20 s."""
    both = TwoProfiles(always(Throttled(None)), always(GOOD))
    both.stage.publish("r-1")
    began = now()
    await both.run()

    assert 14 < both.large.calls[0][2] - began < 17
    assert both.outcomes()[0]["model"]["because"] == "throttled > 20s"


@on_virtual_time
async def test_who_waits_behind_a_probe_that_hangs_goes_on_after_the_time_that_is_set() -> None:
    small = FakeProvider(lambda name, n: (0.1, Throttled(2.0)) if n == 1 else (50.0, GOOD))
    both = TwoProfiles(small, always(GOOD), on=(THROTTLED,), slots=1)
    began = now()
    await both.stage.worker.open()
    for number in range(3):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await both.end()

    assert 19.9 < min(at for _, _, at in both.large.calls) - began < 22.5
    assert both.asked().count("large") == 2


BUDGETS: list[tuple[dict[str, int], str]] = [
    ({"attempts": 9, "micro_usd": 50_000}, "micro_usd"),
    ({"attempts": 1}, "attempts"),
]


@pytest.mark.parametrize(("budget", "which"), BUDGETS)
@on_virtual_time
async def test_a_hop_that_does_not_fit_is_left_out_and_a_refusal_stays_one(
    budget: dict[str, int], which: str
) -> None:
    small = always(Refused("no", GOOD.facts))
    both = TwoProfiles(small, always(GOOD), price_of_large=1_000)
    both.stage.publish("r-1", budget=budget)
    await both.run()

    [outcome] = both.outcomes()
    assert (outcome["kind"], both.large.calls) == ("refusal", [])
    why = f"too little is left of the budget ({which})"
    assert f"profile large was not asked in place of default: {why}" in outcome["notes"]


@pytest.mark.parametrize(
    "reply", [Refused("no", GOOD.facts), NO_CONNECTION], ids=["refused", "away"]
)
@on_virtual_time
async def test_a_hop_that_does_not_fit_the_budget_of_a_label_is_left_out(reply: Reply) -> None:
    small = FakeProvider(lambda _, n: (0.1, reply if n == 1 else GOOD))
    names = (f"t-{number}" for number in range(1_000))
    tenant = next(n for n in names if partition_of(f"tenant:{n}", PARTITIONS) == 0)
    rules = BudgetRules({"tenant": {tenant: PeriodLimits(day=(None, None, 50_000))}})
    both = TwoProfiles(small, always(GOOD), price_of_large=1_000, budget_rules=rules)
    both.stage.publish("r-1", labels={"tenant": tenant})
    await both.stage.worker.open()
    speaking = asyncio.create_task(lanes_speak(both.stage.worker))
    await both.end()
    speaking.cancel()

    [outcome] = both.outcomes()
    assert both.large.calls == []
    assert outcome["kind"] == ("result" if reply is NO_CONNECTION else "refusal")
    why = "too little is left of the budget (micro_usd)"
    assert f"profile large was not asked in place of default: {why}" in outcome["notes"]


@on_virtual_time
async def test_who_cannot_afford_another_waits_for_its_own() -> None:
    back_at = 0.0
    small = FakeProvider(lambda *_: (0.1, GOOD if now() > back_at else NO_CONNECTION))
    both = TwoProfiles(small, always(GOOD), price_of_large=1_000)
    await both.stage.worker.open()
    back_at = now() + 30
    both.stage.publish("r-1", budget={"attempts": 3, "micro_usd": 50_000})
    await both.end()

    assert (both.outcomes()[0]["model"]["profile"], both.large.calls) == ("default", [])


@on_virtual_time
async def test_each_hop_is_a_spend_at_its_own_price() -> None:
    small = FakeProvider(lambda _, n: (0.1, WRONG))
    both = TwoProfiles(small, always(GOOD), price_of_large=2)
    both.stage.publish("r-1", answer_schema=NUMBER, budget={"attempts": 5})
    await both.run()

    costs = [one["charged"]["micro_usd"] for one in events(both.stage.broker, ATTEMPTS)]
    assert costs == [0, 0, 2 * 15]
    assert both.outcomes()[0]["account"]["spent"]["micro_usd"] == 2 * 15


@pytest.mark.parametrize("crash_after", [1, 2, 3])
@on_virtual_time
async def test_after_a_crash_the_same_profile_is_chosen(crash_after: int) -> None:
    small, large = always(WRONG), always(WRONG)
    both = TwoProfiles(small, large)
    both.stage.publish("r-1", answer_schema=NUMBER, budget={"attempts": 5})
    await both.stage.worker.open()
    await until(lambda: len(events(both.stage.broker, RETRIES)) == crash_after)
    await both.stage.worker.crash()
    both.stage.worker = Worker(both.stage.broker, both.stage.context)
    await both.run()

    assert both.asked() == ["default", "default", "large", "large", "large"]


@on_virtual_time
async def test_a_policy_that_wants_no_second_attempt_gets_none() -> None:
    both = TwoProfiles(always(WRONG), always(GOOD), on=(Condition("invalid"),))
    both.stage.publish("r-1", answer_schema=NUMBER, policy={"on_invalid": "dead_letter"})
    await both.run()

    assert both.asked() == ["default"]


@on_virtual_time
async def test_another_profile_that_gives_the_same_answer_has_given_it_once() -> None:
    both = TwoProfiles(always(WRONG), always(WRONG), on=(Condition("invalid", 3),))
    both.stage.publish("r-1", answer_schema=NUMBER)
    await both.run()

    assert both.asked() == ["default"] * 3 + ["large"] * 4
    assert both.outcomes()[0]["cause"]["kind"] == "repeats_itself"


def change(both: TwoProfiles, fallbacks: tuple[Fallback, ...]) -> None:
    planner = both.stage.context.planner
    known = planner.backends["default"]
    backend = replace(known, facts=replace(known.facts, fallbacks=fallbacks))
    planner.change(BackendChange({"default": backend}, alike=["default"]), Agents())


@on_virtual_time
async def test_who_waits_hears_of_a_fallback_that_is_new() -> None:
    both = TwoProfiles(always(NO_CONNECTION), always(GOOD))
    change(both, ())
    both.stage.publish("r-1")
    await both.stage.worker.open()
    await asyncio.sleep(7)  # in the middle of a pause
    change(both, (Fallback("large", (UNHEALTHY,)),))
    await until(lambda: bool(both.large.calls), 0.1)
    await both.end()


@on_virtual_time
async def test_who_waits_for_a_fallback_that_is_gone_goes_back() -> None:
    back_at = float("inf")
    small = FakeProvider(lambda *_: (0.1, GOOD if now() > back_at else NO_CONNECTION))
    both = TwoProfiles(small, always(GOOD, 50.0), slots=1)
    await both.stage.worker.open()
    for number in range(5):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await until(lambda: len(both.large.calls) == 1)
    change(both, ())
    back_at = now() + 1
    await both.end()

    assert len(both.large.calls) == 1


@on_virtual_time
async def test_a_dialect_that_refuses_the_schema_is_left_out_with_a_note() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for _ in range(12):  # levels of objects, of which OpenAI's dialect takes ten
        schema = {"type": "object", "properties": {"n": schema}}
    both = TwoProfiles(always(Truncated(9, GOOD.facts)), always(GOOD))
    backends = both.stage.context.planner.backends
    assert isinstance(backends, dict)
    backends["large"] = replace(backends["large"], dialect="openai")
    asked = {"kind": "inline", "name": "deep", "wrapped": False, "json_schema": schema}
    both.stage.publish("r-1", answer_schema=asked, budget={"attempts": 2})
    await both.run()

    [outcome] = both.outcomes()
    why = "its dialect cannot carry the schema"
    assert both.asked() == ["default", "default"]
    assert f"profile large was not asked in place of default: {why}" in outcome["notes"]


Make = Callable[[], FakeProvider]


@pytest.mark.parametrize("large", [lambda: always(NO_CONNECTION), lambda: always(Throttled(None))])
@on_virtual_time
async def test_where_both_are_away_the_first_to_come_back_answers(large: Make) -> None:
    back_at = float("inf")
    small = FakeProvider(lambda *_: (0.1, GOOD if now() > back_at else NO_CONNECTION))
    both = TwoProfiles(small, large())
    await both.stage.worker.open()
    for number in range(10):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    back_at = now() + 60
    await both.end()

    assert set(terminals(both.stage.broker).values()) == {"result"}
    assert len(both.small.calls) + len(both.large.calls) < 120


@on_virtual_time
async def test_hundreds_of_calls_that_fail_at_once_are_told_once() -> None:
    """Each would else let all who wait plan again, in vain where the fallback is away too."""
    small = always(Unavailable(500, ran=True), 5.0)
    both = TwoProfiles(small, always(NO_CONNECTION), slots=50)
    limiter = both.stage.context.planner.backends["default"].limiter
    told = list[int]()
    plan_again = limiter.plan_again

    def noted(*, all_waiting: bool = False) -> None:
        told.append(len(limiter.waiting))
        plan_again(all_waiting=all_waiting)

    limiter.plan_again = noted  # type: ignore[method-assign]
    await both.stage.worker.open()
    for number in range(90):
        both.stage.publish(f"r-{number}", workflow_id=workflow_of(0, number), ttl_s=30)
    await asyncio.sleep(6)
    assert small.now_running < 50
    assert 1 <= len(told) <= 3
    assert max(told) >= 40
    await both.stage.worker.crash()


@on_virtual_time
async def test_two_profiles_that_are_forbidden_to_all_do_not_end_a_request() -> None:
    forbidden = Rejected("profile", 403, None)
    small = FakeProvider(lambda name, _: (0.1, forbidden if name == "late" else GOOD))
    both = TwoProfiles(small, always(forbidden))
    both.stage.publish(*(f"r-{number}" for number in range(5)), answer_schema=NUMBER)
    await both.stage.worker.open()
    await both.stage.all_done()
    both.stage.publish("late", answer_schema=NUMBER, ttl_s=900)
    await both.stage.all_done(2_000.0)
    await both.stage.worker.drain()

    assert [one["cause"]["kind"] for one in both.outcomes()[5:]] == ["deadline_passed"]
