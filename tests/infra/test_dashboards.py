"""Dashboard and alert rules ask for metrics that exist, with labels and values that they have."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import promql_parser as promql
import pytest
import yaml

from answerbus.attempt import AttemptOutcome
from answerbus.call_outcome import CallOutcome
from answerbus.dead_letter import Cause
from answerbus.failure import Failure
from services.settings.console import ConsoleSettings
from services.telemetry.counts import Metric
from services.telemetry.metrics import METRICS
from services.worker.core.attempt.reply import ReplyKind
from services.worker.core.run.run import RunStage
from services.worker.lane.state.machine import State
from tests.unit.console.context import OPERATOR, site

ROOT = Path(__file__).parents[2]
RULES = ROOT / "infra/prometheus/alerts.yml"
DASHBOARD = ROOT / "infra/grafana/answerbus.json"
RUNBOOKS = ROOT / "docs/runbooks"
CONSOLE = f"http://127.0.0.1:{ConsoleSettings().port}"  # until the chart puts another in its place
TARGET_LABELS = {"instance", "job"}  # Prometheus' own
_FIELD = re.compile(r"\$\{__field\.labels\.(\w+)\}")
SECTIONS = ("What it means", "How to see", "What to do", "It is over when")


def kinds(union: Any) -> set[str]:
    """The kinds of a closed union of events' parts."""
    members = get_args(get_args(union)[0])
    return {member.model_fields["kind"].default for member in members}


VALUES: Mapping[str, set[str]] = {
    "kind": {"result", "unvalidated_result", "refusal", "dead_letter"},
    "cause": kinds(Cause) | {"none"},
    "end": {member.model_fields["kind"].default for member in get_args(get_args(CallOutcome)[0])},
    "stage": set(get_args(RunStage)),
    "failure": kinds(Failure) | {"none"},
    "outcome": set(get_args(AttemptOutcome)),
    "reply": set(get_args(ReplyKind)),
    "state": {state.name.lower() for state in State},
    "result": {"committed", "lost"},
    "counted": {"yes", "no"},
    "direction": {"input", "output"},
}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def queries() -> dict[str, str]:
    asked = {rule["alert"]: str(rule["expr"]) for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            asked[f"{panel['title']} {target['refId']}"] = target["expr"]
    return asked


def metric_of(series: str | None) -> Metric:
    """The metric that a series belongs to."""
    by_name = {metric.name: metric for metric in METRICS if metric.kind != "histogram"}
    for metric in METRICS:
        if metric.kind == "histogram":
            by_name |= {f"{metric.name}_{part}": metric for part in ("bucket", "sum", "count")}
    return by_name[series or ""]


def labels_of(metric: Metric) -> set[str]:
    return {*metric.labels, *TARGET_LABELS, *(["le"] if metric.kind == "histogram" else [])}


def parts(expression: Any) -> Iterator[Any]:
    """An expression and all that it is made of."""
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        inner = getattr(expression, name, None)
        if inner is not None:
            yield from parts(inner)
    for argument in getattr(expression, "args", ()):
        yield from parts(argument)


@pytest.mark.parametrize("name", queries())
def test_a_query_asks_for_what_there_is(name: str) -> None:
    found = list(parts(promql.parse(queries()[name])))
    selectors = [part for part in found if isinstance(part, promql.VectorSelector)]
    known = set.union(*(labels_of(metric_of(selector.name)) for selector in selectors))

    for selector in selectors:
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels_of(metric_of(selector.name))
            if matcher.name in VALUES:
                assert set(matcher.value.split("|")) <= VALUES[matcher.name]
    for part in found:
        if isinstance(part, promql.AggregateExpr) and part.modifier:
            assert set(part.modifier.labels) <= known
    is_rate = {part.func.name for part in found if isinstance(part, promql.Call)} & {
        "rate",
        "increase",
    }
    of_counters = {metric_of(selector.name).kind != "gauge" for selector in selectors}
    assert bool(is_rate) or of_counters == {False}, "a total alone tells nothing"


def test_legends_and_annotations_name_labels_that_their_query_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            kept = _kept(target["expr"])
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]
    for rule in rules():
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert named <= _kept(rule["expr"]), rule["alert"]


def _kept(expression: str) -> set[str]:
    grouped = [
        set(part.modifier.labels)
        for part in parts(promql.parse(expression))
        if isinstance(part, promql.AggregateExpr) and part.modifier
    ]
    return set.union(*grouped) if grouped else TARGET_LABELS


async def test_links_lead_to_pages_of_the_console_by_labels_that_their_query_keeps() -> None:
    found = [
        (link["url"], panel["targets"])
        for panel in panels()
        for link in panel["fieldConfig"]["defaults"].get("links", [])
    ]
    found += [(link["url"], []) for link in json.loads(DASHBOARD.read_text())["links"]]

    assert len(found) == 10
    async with site() as here:
        cookie = await here.log_in(OPERATOR)
        for url, targets in found:
            for target in targets:
                assert set(re.findall(_FIELD, url)) <= _kept(target["expr"]), url
            assert url.startswith(f"{CONSOLE}/")
            path = re.sub(_FIELD, r"\1", url.removeprefix(CONSOLE))
            assert (await here.get(path, cookie)).status == 200, url


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    linked = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules()}
    pages = {f"{CONSOLE}/runbooks/{page.stem}": page for page in RUNBOOKS.glob("*.md")}

    assert len(set(linked.values())) == len(linked)
    assert set(linked.values()) <= set(pages)
    for alert, place in linked.items():
        text = pages[place].read_text(encoding="utf-8")
        assert alert in text, place
        sections = tuple(re.findall(r"^## (.+)$", text, re.MULTILINE))
        assert sections == SECTIONS, place
        for name in re.findall(r"`(answerbus_\w+)`", text):
            assert name in {metric.name for metric in METRICS}, place


def test_rules_have_what_prometheus_wants() -> None:
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
        assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
        assert rule["annotations"]["summary"].endswith(".")


def test_every_metric_is_looked_at_somewhere() -> None:
    asked = " ".join(queries().values())

    assert [metric.name for metric in METRICS if metric.name not in asked] == []
