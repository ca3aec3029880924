"""The Helm chart rendered for each example of values, once, by Helm's own library."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "infra/helm/answerbus"
EXAMPLES = {path.stem: path for path in sorted((ROOT / "infra/helm/examples").glob("*.yaml"))}
RELEASE, NAMESPACE = "prod", "answers"
Manifest = dict[str, Any]


def values_of(example: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(EXAMPLES[example].read_text(encoding="utf-8"))
    return found


def changed(example: str, **sections: Any) -> dict[str, Any]:
    """The values of an example with other entries in some sections."""
    values = values_of(example)
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section}
    return values


@cache
def rendered(example: str) -> tuple[Manifest, ...]:
    """Every manifest of an example."""
    return tuple(render(values_of(example)))


def render(values: Mapping[str, Any]) -> Iterator[Manifest]:
    """Raises RenderError where the chart refuses values."""
    helm = pytest.importorskip("helm_python", reason="Helm's library has no wheel for this machine")
    with helm.Chart.load(CHART) as chart:
        try:
            chart.validate_schema(values)
            files = chart.render(values, name=RELEASE, namespace=NAMESPACE)
        except helm.HelmError as error:
            raise RenderError(str(error)) from None
    for path, text in files.items():
        if path.endswith(".yaml"):
            yield from (one for one in yaml.safe_load_all(text) if one)


class RenderError(Exception):
    """The chart refuses these values; the message says why."""


def of_kind(example: str, *kinds: str) -> list[Manifest]:
    return [one for one in rendered(example) if one["kind"] in kinds]


def workloads() -> list[tuple[str, Manifest]]:
    """Everything that runs pods, of every example."""
    kinds = ("Deployment", "StatefulSet", "Job")
    return [(example, one) for example in EXAMPLES for one in of_kind(example, *kinds)]


def pod(workload: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


def component(manifest: Manifest) -> str:
    return str(manifest["metadata"]["labels"]["app.kubernetes.io/component"])


def folders_named(table: Mapping[str, Any]) -> set[str]:
    """The folders of files that settings name, at any depth."""
    found = set()
    for name, value in table.items():
        if isinstance(value, dict):
            found |= folders_named(value)
        elif re.search(r"_(cafile|certfile|keyfile|file)$", name):
            found.add(value.rpartition("/")[0])
    return found


def mounted_at(container: Mapping[str, Any]) -> set[str]:
    return {mount["mountPath"] for mount in container["volumeMounts"]}
