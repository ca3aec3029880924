"""`[budgets."LABEL:VALUE"]`: what requests with a label may cost together, by day and month."""

from typing import Annotated

from pydantic import AfterValidator, Field

from answerbus.limits import LABEL_CHARS_MAX
from services.settings.section import Section, UsdLimit, Whole

BUDGETS_MAX = 1_000  # rules; one with `*` is for any number of values
USD_MAX = 1_000_000_000
AMOUNT_MAX = 10**15


def _label_and_value(name: str) -> str:
    label, separator, value = name.partition(":")
    if not label or not separator:
        raise ValueError(
            'must be a label and its value, such as "tenant:acme", "tenant:*" for any, or '
            '"tenant:" for requests without the label'
        )
    if max(len(label), len(value)) > LABEL_CHARS_MAX:
        raise ValueError(f"has a label and a value of at most {LABEL_CHARS_MAX} characters each")
    return name


BudgetName = Annotated[str, AfterValidator(_label_and_value)]
Usd = Annotated[UsdLimit, Field(ge=0, le=USD_MAX)]
Amount = Annotated[Whole, Field(ge=0, le=AMOUNT_MAX)]


class UsdLimits(Section):
    """Dollars by day and by month of UTC."""

    day: Usd | None = None
    month: Usd | None = None


class AmountLimits(Section):
    """Tokens or calls by day and by month of UTC."""

    day: Amount | None = None
    month: Amount | None = None


class BudgetSettings(Section):
    """One budget; what is left out has no limit."""

    usd: UsdLimits = UsdLimits()
    tokens: AmountLimits = AmountLimits()
    calls: AmountLimits = AmountLimits()
