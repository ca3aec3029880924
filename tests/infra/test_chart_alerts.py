"""The alerts of one release of several in a cluster, as its chart installs them."""

import re
from pathlib import Path
from typing import Any

import promql_parser as promql
import yaml

from tests.infra.chart import NAMESPACE, RELEASE, of_kind
from tests.infra.promtool import run_rule_tests

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
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump({"groups": groups()}), encoding="utf-8")
    other = f'{{namespace="other",pod="{RELEASE}-worker-1",partition="0",state="open"}}'
    firing = 'count(ALERTS{alertname="AnswerbusNoWorker",alertstate="firing"})'
    sample = {"labels": "{}", "value": 1}
    test = {
        "interval": "1m",
        "input_series": [{"series": f"answerbus_lane_state{other}", "values": "1x20"}],
        "promql_expr_test": [{"expr": firing, "eval_time": "10m", "exp_samples": [sample]}],
    }
    run_rule_tests(rules, [test], tmp_path)
