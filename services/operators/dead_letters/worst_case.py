"""The worst-case cost of a replay: its prompt, its profile's output limit and price; pure.

It is counted as a worker counts before a call: each byte of the prompt as a token, and the whole
output. A retry also reads the answers before it, and may have a higher output limit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from pydantic import JsonValue

from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, Request, TextRef
from services.operators.dead_letters.row import BudgetAmounts
from services.worker.core.attempt.prompt import (
    OUTPUT_GROWTH_AFTER_TRUNCATION,
    OUTPUT_GROWTH_MAX,
    build,
)
from services.worker.core.attempt.tariff import Tariff, micro_dollars
from services.worker.core.schema.resolved import WireSchema

ANSWERS_SHOWN_MAX = 4  # earlier ones in one prompt
_CALLS_UNLIKE = ANSWERS_SHOWN_MAX + 3  # from then on all answers that are shown have full length
FORM_TOKENS_MAX = 1_024  # that a dialect adds to an inline schema
WRAPPER_TOKENS_MAX = 1_536  # of the members around a wrapped one
OF_A_RUN = "prompts of runs grow with what their tools return"


@dataclass(frozen=True, slots=True)
class ProfileCost:
    """The bounds of a call of a profile; `tariff` is None where it has no price.

    Each call may be one of its `fallbacks` instead.
    """

    max_output_tokens: int
    tariff: Tariff | None
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The most that one replay can use; what is None is not known, and `unknown` says why."""

    amounts: BudgetAmounts
    unknown: str | None = None


CostOf = Callable[[str], ProfileCost | None]
NO_SETTINGS: Mapping[str, ProfileCost] = MappingProxyType({})


def worst_case(request: Request, cost_of: CostOf, registry: Registry) -> WorstCase:
    """Never above the request's own budget, which the account of the replay holds."""
    budget = request.budget
    tokens, micro_usd, unknown = _uncapped(request, cost_of, registry)
    micro_usd = _least(micro_usd, budget.micro_usd)
    amounts = BudgetAmounts(budget.attempts, _least(tokens, budget.tokens), micro_usd)
    return WorstCase(amounts, unknown if micro_usd is None else None)


def _uncapped(
    request: Request, cost_of: CostOf, registry: Registry
) -> tuple[int | None, int | None, str]:
    """Tokens, money, and why one of them is not known."""
    if request.agent is not None:
        return None, None, OF_A_RUN
    costs = _of_all_asked(request.profile, cost_of)
    if not costs:
        return None, None, f"profile {request.profile} is not in the settings"
    read, written = _tokens(request, max(one.max_output_tokens for one in costs.values()), registry)
    unpriced = next((name for name, one in costs.items() if one.tariff is None), request.profile)
    tariffs = [one.tariff for one in costs.values() if one.tariff]
    money = None
    if len(tariffs) == len(costs):  # the dearest may be one for what is read, another for answers
        of_input, of_output = zip(*(one.dearest(read) for one in tariffs), strict=True)
        money = micro_dollars(read * max(of_input) + written * max(of_output))
    return read + written, money, f"profile {unpriced} has no price"


def _of_all_asked(profile: str, cost_of: CostOf) -> dict[str, ProfileCost]:
    """Of a profile and all its fallbacks, as far as the settings have them."""
    found, names = dict[str, ProfileCost](), [profile]
    for name in names:
        if name not in found and (cost := cost_of(name)):
            found[name] = cost
            names += cost.fallbacks
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return min((amount for amount in (one, other) if amount is not None), default=None)


def _tokens(request: Request, output_max: int, registry: Registry) -> tuple[int, int]:
    """The most that all calls of the budget can read and write."""
    schema, form = _schema(request, registry)
    prompt = build(request, WireSchema("", "", schema), request.prior, output_max, show_schema=True)
    read, calls, most = 0, request.budget.attempts, OUTPUT_GROWTH_MAX * output_max
    # What was cut before raises the limit of the first call, too.
    outputs = [
        min(prompt.max_output_tokens * OUTPUT_GROWTH_AFTER_TRUNCATION**number, most)
        for number in range(min(calls, _CALLS_UNLIKE))
    ]
    further = max(calls - _CALLS_UNLIKE, 0)  # each is like the last one of these
    for number in range(len(outputs)):
        answers = sum(outputs[max(number - ANSWERS_SHOWN_MAX, 0) : number])
        times = further + 1 if number == _CALLS_UNLIKE - 1 else 1
        read += times * (prompt.input_max + form + answers)
    return read, sum(outputs) + further * most


def _schema(request: Request, registry: Registry) -> tuple[dict[str, JsonValue] | None, int]:
    """As it was asked for, and what its wire form may have in addition to twice of it."""
    match request.answer_schema:
        case ContractRef() as ref:
            contract = registry.find(ref)
            return (contract.asked_schema(), 0) if contract else (None, 0)
        case TextRef():
            return None, 0
        case InlineRef(json_schema=schema, wrapped=wrapped):
            form = FORM_TOKENS_MAX + (WRAPPER_TOKENS_MAX if wrapped else 0)
            return schema if isinstance(schema, dict) else None, form
        case other:
            assert_never(other)
