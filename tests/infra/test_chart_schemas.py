"""What the chart renders is what Kubernetes and the operators of others accept, to the letter."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from infra.chart_files import chart_files
from tests.infra.chart import CHART, EXAMPLES, ROOT, Manifest, rendered, values_of

VERSIONS = ("1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0")
CRDS = ROOT.parent / "shared" / "crds"
EXAMPLES_MIN = 8


@cache
def schema_of(version: str, kind: str, api: str) -> jsonschema_rs.Validator:
    """The strict one of the API server: an unknown field is an error."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    group = api.replace(".k8s.io", "").replace("/", "-")
    schema = json.loads((folder / f"{kind.lower()}-{group}.json").read_text(encoding="utf-8"))
    return jsonschema_rs.Draft202012Validator(schema, registry=definitions_of(version))


@cache
def definitions_of(version: str) -> jsonschema_rs.Registry:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    text = (folder / "_definitions.json").read_text(encoding="utf-8")
    found = json.loads(text)
    return jsonschema_rs.Registry([(found["$id"], found)])


def is_of_kubernetes(manifest: Manifest) -> bool:
    group = manifest["apiVersion"].rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io")


def errors_text(manifest: Manifest, errors: Iterator[jsonschema_rs.ValidationError]) -> list[str]:
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    return [f"{name} {error.instance_path}: {error.message[:200]}" for error in errors]


def test_there_are_enough_examples() -> None:
    assert len(EXAMPLES) >= EXAMPLES_MIN


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_version_of_kubernetes_takes_it(example: str) -> None:
    found = []
    for manifest in filter(is_of_kubernetes, rendered(example)):
        for version in VERSIONS:
            validator = schema_of(version, manifest["kind"], manifest["apiVersion"])
            found += [
                (version, one) for one in errors_text(manifest, validator.iter_errors(manifest))
            ]
    assert found == []


def test_a_misspelt_field_would_be_found() -> None:
    """Else the above proves nothing."""
    (worker, *_) = (one for one in rendered("minimal") if one["kind"] == "Deployment")
    wrong = json.loads(json.dumps(worker))
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    for version in VERSIONS:
        assert not schema_of(version, "Deployment", "apps/v1").is_valid(wrong)


@cache
def custom() -> Mapping[tuple[str, str], jsonschema_rs.Validator]:
    """The schemas of others' resources by API version and kind, made strict."""
    found = {}
    for path in sorted(CRDS.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        for version in spec["versions"]:
            api = f"{spec['group']}/{version['name']}"
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[api, spec["names"]["kind"]] = jsonschema_rs.Draft202012Validator(schema)
    return found


def strict(schema: Any) -> Any:
    """As an API server prunes: a field that is not declared is none."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: strict(one) for name, one in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if (
        isinstance(schema.get("properties"), dict)
        and schema.get("type") == "object"
        and not is_open
    ):
        inner["additionalProperties"] = False
    return inner


@pytest.mark.skipif(not CRDS.exists(), reason=f"no schemas of custom resources in {CRDS}")
def test_the_operators_of_others_take_it() -> None:
    checked, found = set(), []
    for example in EXAMPLES:
        for manifest in rendered(example):
            if is_of_kubernetes(manifest):
                continue
            validator = custom()[manifest["apiVersion"], manifest["kind"]]
            found += errors_text(manifest, validator.iter_errors(manifest))
            checked.add(manifest["kind"])
    assert found == []
    assert checked == {"KafkaTopic", "KafkaUser", "PodMonitor", "PrometheusRule", "ScaledObject"}


def test_the_linter_has_nothing_to_say() -> None:
    helm = pytest.importorskip("helm_python", reason="Helm's library has no wheel for this machine")
    for example in EXAMPLES:
        report = helm.lint(CHART, values_of(example), strict=True, kube_version="v1.37.0")
        assert report["errors"] == [], example


def test_what_the_chart_repeats_is_what_stands_elsewhere() -> None:
    """`make chart` writes it again."""
    for path, text in chart_files().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path
    assert {path.name for path in (CHART / "files").iterdir()} == {
        Path(path).name for path in chart_files()
    }
