"""What the doctor says of the memory of accounts, by the measured rate."""

import pytest

from services.commands.doctor.findings.judge import accounts_finding

DAY_S = 86_400


@pytest.mark.parametrize(
    ("rate", "remember_s", "verdict", "amount"),
    [
        (0.0, 7 * DAY_S, "ok", "0.00 GB"),
        (10.0, 7 * DAY_S, "ok", "0.67 GB"),
        (100.0, 7 * DAY_S, "warning", "6.65 GB"),
        (100.0, 3_600, "ok", "0.04 GB"),
    ],
)
def test_the_formula_is_applied_to_the_rate(
    rate: float, remember_s: float, verdict: str, amount: str
) -> None:
    found = accounts_finding(rate, remember_s)

    assert found.verdict == verdict
    assert amount in found.said
    assert ("accounts.remember_s` to" in found.said) == (verdict == "warning")
