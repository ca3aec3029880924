"""The alerts of one release of several in a cluster, as its chart installs them."""

import re
import subprocess
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from infra.setup_error import SetupError
from tests.alerts.prometheus import program
from tests.infra.chart import NAMESPACE, RELEASE, of_kind

LIMIT_S = 60
OURS = f'{{namespace="{NAMESPACE}",pod=~"{RELEASE}-worker-.*"'


def groups() -> list[dict[str, Any]]:
    (found,) = of_kind("observed", "PrometheusRule")
    made: list[dict[str, Any]] = found["spec"]["groups"]
    return made


def test_alerts_are_about_the_workers_of_their_release_and_say_which_it_is() -> None:
    for rule in (rule for group in groups() for rule in group["rules"]):
        promql.parse(rule["expr"])
        for name in re.finditer(r"answerbus_\w+", rule["expr"]):
            assert rule["expr"][name.end() :].startswith(OURS), rule["expr"]
        assert rule["labels"].items() >= {"namespace": NAMESPACE, "release": RELEASE}.items()


def test_no_worker_is_said_although_another_release_has_an_open_lane(tmp_path: Path) -> None:
    try:
        promtool = program("promtool")
    except SetupError as error:
        pytest.skip(f"no promtool: {error}")
    rules, file = tmp_path / "rules.yml", tmp_path / "tests.yml"
    rules.write_text(yaml.safe_dump({"groups": groups()}), encoding="utf-8")
    other = f'{{namespace="other",pod="{RELEASE}-worker-1",partition="0",state="open"}}'
    firing = 'count(ALERTS{alertname="AnswerbusNoWorker",alertstate="firing"})'
    sample = {"labels": "{}", "value": 1}
    test = {
        "interval": "1m",
        "input_series": [{"series": f"answerbus_lane_state{other}", "values": "1x20"}],
        "promql_expr_test": [{"expr": firing, "eval_time": "10m", "exp_samples": [sample]}],
    }
    tests = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(yaml.safe_dump(tests), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", file],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
