"""Writes the tables of docs/metrics.md from the declarations: `python -m infra.metrics_page`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from services.telemetry.counts import Metric
from services.telemetry.metrics import METRICS, SHADOW_METRICS

PAGE = Path("docs/metrics.md")
RULES = Path("infra/prometheus/alerts.yml")
BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"


def page(text: str, rules: str) -> str:
    """The page with its tables as they must be."""
    text = between(text, "metrics", _metrics(METRICS))
    text = between(text, "shadow metrics", _metrics(SHADOW_METRICS))
    return between(text, "alerts", _alerts(yaml.safe_load(rules)))


def _metrics(metrics: Sequence[Metric]) -> str:
    lines = ["| name | kind | labels | meaning |", "|---|---|---|---|"]
    return "".join(f"{line}\n" for line in [*lines, *map(_row, metrics)])


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    former = f" Also served as `{metric.formerly}`, in this version." if metric.formerly else ""
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning}{former} |"


def _alerts(rules: Mapping[str, Any]) -> str:
    lines = ["| alert | severity | runbook |", "|---|---|---|"]
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        name = f"{rule['annotations']['runbook_url'].rpartition('/')[2]}.md"
        severity = rule["labels"]["severity"]
        lines.append(f"| `{rule['alert']}` | {severity} | [{name}](runbooks/{name}) |")
    return "".join(f"{line}\n" for line in lines)


def between(text: str, name: str, table: str) -> str:
    """The text with what is between two marks replaced."""
    before, begin, rest = text.partition(BEGIN.format(name))
    _, end, after = rest.partition(END.format(name))
    return before + begin + table + end + after


if __name__ == "__main__":
    written = page(PAGE.read_text(encoding="utf-8"), RULES.read_text(encoding="utf-8"))
    PAGE.write_text(written, encoding="utf-8")
