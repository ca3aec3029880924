"""Each alert fires on its fault and is over with it, as Prometheus' own promtool says."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.alerts.rules import RULES, names
from tests.infra.compose import ROOT
from tests.infra.promtool import run_promtool, run_rule_tests

WELL, BAD, LATER = 60, 60, 120  # minutes of each: before, during and after the fault


class Fault(NamedTuple):
    """Series with what they say while all is well and while it is not.

    A number is a gauge's value, `+n` what a counter gains in a minute.
    """

    series: dict[str, tuple[str, str]]

    def values(self) -> dict[str, str]:
        return {name: _values(well, bad) for name, (well, bad) in self.series.items()}


def _values(well: str, bad: str) -> str:
    """In promtool's notation."""
    if not bad.startswith("+"):
        return f"{well}x{WELL} {bad}x{BAD - 1} {well}x{LATER}"
    before, during = int(well), int(bad)
    middle = before * WELL
    end = middle + during * BAD
    return f"0+{before}x{WELL} {middle + during}+{during}x{BAD - 1} {end + before}+{before}x{LATER}"


TERMINALS = 'answerbus_terminals_total{{kind="{}",contract="c",profile="p"}}'
FAULTS = {
    "LaneStuck": Fault({'answerbus_lane_stuck{instance="w",partition="0"}': ("0", "1")}),
    "NoWorker": Fault(
        {'answerbus_lane_state{instance="w",partition="0",state="open"}': ("1", "0")}
    ),
    "RequestsNotRead": Fault({'answerbus_requests_not_read{instance="w"}': ("0", "1")}),
    "KafkaAway": Fault({'answerbus_kafka_silence_seconds{instance="w"}': ("1", "100")}),
    "ProfileSick": Fault({'answerbus_profile_rejected{profile="p"}': ("0", "1")}),
    "ProviderSilent": Fault(
        {
            'answerbus_profile_unhealthy{profile="p"}': ("0", "1"),
            'answerbus_profile_rejected{profile="p"}': ("0", "0"),
            'answerbus_profile_silence_seconds{profile="p"}': ("0", "0"),
        }
    ),
    "DeadLettersGrowing": Fault(
        {'answerbus_dead_letters_total{cause="rejected",profile="p"}': ("0", "+5")}
    ),
    "BudgetNearlySpent": Fault({'answerbus_budgets_nearly_spent{budget="tenant:*"}': ("0", "1")}),
    "SpendHigh": Fault({'answerbus_spent_micro_usd_total{profile="p"}': ("1000", "+2000000")}),
    "Lag": Fault({'answerbus_lane_lag{instance="w",partition="0"}': ("5", "20000")}),
    "DeadlineMisses": Fault(
        {
            'answerbus_dead_letters_total{cause="deadline_passed",profile="p"}': ("0", "+1"),
            TERMINALS.format("result"): ("50", "+50"),
        }
    ),
    "RequestsLost": Fault(
        {'answerbus_requests_lost_to_retention_total{instance="w"}': ("0", "+1")}
    ),
    "LoopStalls": Fault({'answerbus_event_loop_stalls_total{instance="w"}': ("0", "+3")}),
    "ClockOff": Fault({'answerbus_clock_ahead_seconds{instance="w"}': ("0", "-40")}),
    "RefusalsHigh": Fault(
        {TERMINALS.format("refusal"): ("0", "+20"), TERMINALS.format("result"): ("50", "+50")}
    ),
    "RepairsHigh": Fault(
        {
            'answerbus_attempts_total{failure="invalid",counted="yes",profile="p"}': ("0", "+20"),
            'answerbus_attempts_total{failure="none",counted="yes",profile="p"}': ("50", "+50"),
        }
    ),
    "ToolSilent": Fault({'answerbus_tool_calls_total{tool="t",end="timed_out"}': ("0", "+2")}),
    "ApprovalsOld": Fault({'answerbus_approval_age_seconds{instance="w"}': ("60", "2000")}),
    "RunsRepeat": Fault({'answerbus_run_repeats_total{agent="a"}': ("0", "+2")}),
    "SettingsRefused": Fault({'answerbus_settings_refused{instance="w"}': ("0", "1")}),
    "LanesReopen": Fault({'answerbus_transactions_total{instance="w",result="lost"}': ("0", "+2")}),
}
# Each in a series that begins with it, as those of a worker that has just started do.
BURSTS = {
    "DeadLettersGrowing": {'answerbus_dead_letters_total{cause="rejected",profile="q"}': "20"},
    "DeadlineMisses": {
        'answerbus_dead_letters_total{cause="deadline_passed",profile="q"}': "2",
        TERMINALS.format("dead_letter"): "2",
    },
    "RequestsLost": {'answerbus_requests_lost_to_retention_total{instance="v"}': "1"},
    "ToolSilent": {'answerbus_tool_calls_total{tool="t.t",end="timed_out"}': "8"},
    "RunsRepeat": {'answerbus_run_repeats_total{agent="a"}': "5"},
    "LanesReopen": {'answerbus_transactions_total{instance="v",result="lost"}': "9"},
}
ALWAYS = {'answerbus_lane_state{instance="w",partition="0",state="open"}': "1x400"}


def fault(name: str) -> dict[str, Any]:
    """Quiet before, firing at the end of the fault, quiet long after."""
    return group(name, FAULTS[name].values(), WELL + BAD - 2)


def burst(name: str) -> dict[str, Any]:
    """Firing soon after all of it came at once, and quiet long after."""
    series = {one: f"_x{WELL} {value}x{BAD + LATER}" for one, value in BURSTS[name].items()}
    return group(name, series, WELL + 8)


def group(name: str, faulty: dict[str, str], firing: int) -> dict[str, Any]:
    """A test of promtool that has the alert fire in that minute."""
    series = {**ALWAYS, **faulty}
    message = f'count(ALERTS{{alertname="Answerbus{name}",alertstate="firing"}})'
    expected: list[tuple[int, list[dict[str, Any]]]] = [
        (WELL - 1, []),
        (firing, [{"labels": "{}", "value": 1}]),
        (WELL + BAD + LATER - 5, []),
    ]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {"expr": message, "eval_time": f"{minute}m", "exp_samples": samples}
            for minute, samples in expected
        ],
    }


def test_no_alert_is_left_out() -> None:
    assert {f"Answerbus{name}" for name in FAULTS} == set(names())


def test_each_alert_fires_on_its_fault_and_is_over_with_it(tmp_path: Path) -> None:
    run_rule_tests(RULES, [*map(fault, FAULTS), *map(burst, BURSTS)], tmp_path)


@pytest.mark.parametrize(("kind", "file"), [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_prometheus_reads_what_we_ship(kind: str, file: str) -> None:
    run_promtool("check", kind, ROOT / "infra/prometheus" / file)
