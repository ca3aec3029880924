"""The age of the list of prices that profiles without a `price` of their own use; pure."""

from datetime import date, timedelta

from services.commands.doctor.findings.facts import Finding

AGE_MAX = timedelta(days=30)
_REMEDY = "upgrade the package genai-prices, or give profiles a `price`"


def price_list_finding(checked: date | None, today: date) -> Finding:
    """`checked` is when a price of the list was last held against its maker's, if it says so."""
    if checked is None:
        return Finding("prices", "warning", f"the list does not say how old it is: {_REMEDY}")
    text = f"the list of prices was last checked on {checked:%Y-%m-%d}"
    age = today - checked
    if age > AGE_MAX:
        return Finding("prices", "warning", f"{text}, {age.days} days ago: {_REMEDY}")
    return Finding("prices", "ok", text)
