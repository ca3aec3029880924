"""What a replay can cost at worst: never less than what workers would charge for its calls."""

import json
from typing import Any

import pytest

from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, Prior, Request, SchemaRef, TextRef
from services.operators.dead_letters.forecast import DEAREST_MAX, Forecast, KnownNames
from services.operators.dead_letters.prepare_replay import Rejection
from services.operators.dead_letters.row import BudgetAmounts
from services.operators.dead_letters.worst_case import (
    OF_A_RUN,
    CostOf,
    ProfileCost,
    WorstCase,
    worst_case,
)
from services.operators.records.dead_letter_key import DeadLetterKey
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.attempt.tariff import Tariff
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.tariffs import flat
from tests.unit.operators.dead_letters.examples import dead_letter_event
from tests.unit.operators.dead_letters.test_prepare_replay import prepared
from tests.unit.worker.builders import body

TARIFF = flat(2, 10)
OUTPUT_MAX = 500
DIALECTS: tuple[DialectName, ...] = ("openai", "anthropic", "gemini", "llama_cpp", "prompted")
INLINE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": {"type": "string"}},
        "n": {"type": "integer"},
    },
    "required": ["n"],
}
SCHEMAS: tuple[SchemaRef, ...] = (
    ContractRef(name="plan_proposal", version=1),
    ContractRef(name="agent_action", version=1),
    InlineRef(name="small", wrapped=False, json_schema=INLINE),
    InlineRef(name="small", json_schema=INLINE),
    InlineRef(name="any", wrapped=False, json_schema=True),
    TextRef(),
)


def costs(tariff: Tariff | None = TARIFF) -> CostOf:
    return {"default": ProfileCost(OUTPUT_MAX, tariff)}.get


def asked(**more: Any) -> Request:
    return Request.model_validate_json(json.dumps(body(**more)))


def worst(request: Request, tariff: Tariff | None = TARIFF) -> WorstCase:
    return worst_case(request, costs(tariff), Registry())


def charged(request: Request, dialect: DialectName, failures: list[dict[str, Any]]) -> int:
    """What the worker charges for one call after another, if no usage is ever reported."""
    found = resolve(request.answer_schema, Registry())
    assert isinstance(found, ResolvedSchema)
    wire = compile_for(dialect, found)
    assert isinstance(wire, WireSchema)
    facts = ProfileFacts("default", "openai", "m", OUTPUT_MAX, 9.0, TARIFF, show_schema=True)
    plan, total = Plan(facts, found, wire), 0
    for number in range(request.budget.attempts):
        prior = (*request.prior, *(Prior.model_validate(one) for one in failures[:number]))
        total += plan.worst_cost(plan.prompt(request, prior))
    return total


def invalid(number: int) -> dict[str, Any]:
    """An answer that takes all of the output, a byte a token, and is wrong in one place."""
    problem = {"path": "/n", "code": "type", "expected": "a number"}
    failure = {"kind": "invalid", "problems": [problem]}
    return {"attempt": number, "failure": failure, "answer": {"n": "x" * (OUTPUT_MAX - 100)}}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda ref: ref.kind)
@pytest.mark.parametrize("attempts", [1, 3, 9])
def test_no_worker_charges_more(schema: SchemaRef, dialect: DialectName, attempts: int) -> None:
    request = asked(
        answer_schema=schema.model_dump(mode="json"),
        budget={"attempts": attempts},
        context={"instructions": "Say it.", "facts": [{"name": "a", "value": "ä" * 300}]},
    )
    most = worst(request).amounts.micro_usd
    truncated = [
        {"attempt": n, "failure": {"kind": "truncated", "limit": OUTPUT_MAX}, "answer": None}
        for n in range(1, attempts)
    ]

    assert most is not None
    for failures in ([invalid(n) for n in range(1, attempts)], truncated):
        assert charged(request, dialect, failures) <= most


def cut(number: int, limit: int) -> dict[str, Any]:
    return {"attempt": number, "failure": {"kind": "truncated", "limit": limit}, "answer": None}


def long(number: int, tokens: int) -> dict[str, Any]:
    """See `invalid`, of an answer after others were cut."""
    return {**invalid(number), "answer": {"n": "x" * (tokens - 100)}}


@pytest.mark.parametrize("attempts", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("earlier", [(), (1,), (1, 2), (1, 2, 4)])
def test_no_worker_charges_more_after_answers_that_were_cut(
    earlier: tuple[int, ...], attempts: int
) -> None:
    """A replay is shown what came before, and goes on with the limit that had grown by then."""
    prior = [cut(n, times * OUTPUT_MAX) for n, times in enumerate(earlier, start=1)]
    request = asked(
        answer_schema={"kind": "inline", "name": "small", "wrapped": False, "json_schema": INLINE},
        budget={"attempts": attempts},
        prior=prior,
    )
    grown = [min(2 ** (len(prior) + n), 4) * OUTPUT_MAX for n in range(attempts)]
    after = [*enumerate(grown, start=len(prior) + 1)]
    some = max(2 - len(prior), 0)  # until the limit has grown as far as it does

    most = worst(request).amounts.micro_usd
    assert most is not None
    assert charged(request, "openai", [cut(*one) for one in after]) <= most
    mixed = [*(cut(*one) for one in after[:some]), *(long(*one) for one in after[some:])]
    assert charged(request, "openai", mixed) <= most


def test_the_budget_of_the_request_is_never_exceeded() -> None:
    request = asked(budget={"attempts": 50, "tokens": 900, "micro_usd": 77})

    assert worst(request) == WorstCase(BudgetAmounts(50, 900, 77))
    assert worst(asked(budget={"attempts": 0})) == WorstCase(BudgetAmounts(0, 0, 0))


def test_what_is_not_known_has_its_reason() -> None:
    unpriced = worst(asked(), tariff=None)
    assert (unpriced.amounts.micro_usd, unpriced.unknown) == (None, "profile default has no price")
    assert unpriced.amounts.tokens == worst(asked()).amounts.tokens

    strange = worst(asked(profile="vision", budget={"attempts": 2, "tokens": 50}))
    assert strange == WorstCase(BudgetAmounts(2, 50, None), "profile vision is not in the settings")

    run = asked(agent={"name": "support"}, budget={"attempts": 20})
    assert worst(run) == WorstCase(BudgetAmounts(20, None, None), OF_A_RUN)
    limited = asked(agent={"name": "support"}, budget={"attempts": 20, "micro_usd": 9})
    assert worst(limited) == WorstCase(BudgetAmounts(20, None, 9))


def test_a_forecast_has_the_sum_the_dearest_dead_letters_and_the_reasons() -> None:
    forecast = Forecast(KnownNames({"default"}, Registry(), costs()))
    for n in range(DEAREST_MAX + 5):
        dead_letter = dead_letter_event(f"r-{n}", request={"budget": {"attempts": n + 1}})
        forecast.take(DeadLetterKey.of(dead_letter), prepared(dead_letter))
    strange = dead_letter_event("r-x", request={"profile": "vision"})
    forecast.take(DeadLetterKey.of(strange), prepared(strange))
    forecast.take(
        DeadLetterKey("w", "held"), Rejection("rounds", "It was replayed 5 times already")
    )

    assert forecast.sendable == DEAREST_MAX + 6
    assert forecast.worst.attempts == sum(range(1, DEAREST_MAX + 6)) + 3
    assert [one.worst.amounts.attempts for one in forecast.dearest] == [*range(15, 5, -1)]
    assert forecast.unknown == {"profile vision is not in the settings": 1}
    assert forecast.worst_known == forecast.worst
    assert forecast.held_back_count == 1


def test_where_no_cost_is_known_no_sum_is_made_up() -> None:
    forecast = Forecast(KnownNames(None, Registry()))
    dead_letter = dead_letter_event("r-1", request={})
    forecast.take(DeadLetterKey.of(dead_letter), prepared(dead_letter))

    assert forecast.worst_known == BudgetAmounts(forecast.worst.attempts, None, None)


def test_each_call_may_be_one_of_a_fallback() -> None:
    def most(large: ProfileCost | None) -> WorstCase:
        small = ProfileCost(OUTPUT_MAX, flat(1, 1), ("large", "gone"))
        known = {"default": small, **({"large": large} if large else {})}
        return worst_case(asked(), known.get, Registry())

    alone = most(None)
    dear = most(ProfileCost(OUTPUT_MAX, flat(5, 0), ("default",)))
    longer = most(ProfileCost(2 * OUTPUT_MAX, flat(1, 1)))

    assert alone.amounts.micro_usd == alone.amounts.tokens
    assert dear.amounts.tokens == alone.amounts.tokens
    assert (dear.amounts.micro_usd or 0) > (alone.amounts.micro_usd or 0)
    assert (longer.amounts.tokens or 0) > (alone.amounts.tokens or 0)
    assert most(ProfileCost(OUTPUT_MAX, None)).unknown == "profile large has no price"
