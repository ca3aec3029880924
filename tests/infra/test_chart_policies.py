"""What every manifest of the chart keeps to, with all values."""

import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import promql_parser as promql
import pytest
import yaml

from services.settings.settings import FILE_DEFAULT, load
from services.settings.worker import WorkerSettings
from services.telemetry.metrics import METRICS
from tests.infra.chart import (
    CHART,
    EXAMPLES,
    ROOT,
    Manifest,
    RenderError,
    changed,
    component,
    folders_named,
    mounted_at,
    of_kind,
    pod,
    render,
    values_of,
    workloads,
)
from tests.infra.distributions import SERVICES
from tests.infra.test_distributions import version_of

AFTER_DRAIN_S = 20
USER = 10001
all_workloads = pytest.mark.parametrize(
    ("example", "workload"),
    [pytest.param(e, w, id=f"{e}-{w['metadata']['name']}") for e, w in workloads()],
)
all_examples = pytest.mark.parametrize("example", EXAMPLES)


def containers(workload: Manifest) -> list[dict[str, Any]]:
    found = pod(workload)
    return [*found["containers"], *found.get("initContainers", [])]


def toml_of(example: str, tmp_path: Path, name: str = "prod-settings") -> Path:
    (found,) = (m for m in of_kind(example, "ConfigMap") if m["metadata"]["name"] == name)
    path = tmp_path / "answerbus.toml"
    path.write_text(found["data"]["answerbus.toml"], encoding="utf-8")
    return path


def workers(example: str) -> Manifest:
    (found,) = (
        one for one in of_kind(example, "Deployment", "StatefulSet") if component(one) == "worker"
    )
    return found


@all_workloads
def test_no_pod_runs_as_root_and_each_names_its_user_by_number(
    example: str, workload: Manifest
) -> None:
    context = pod(workload)["securityContext"]

    assert context["runAsNonRoot"] is True
    assert (context["runAsUser"], context["runAsGroup"]) == (USER, USER)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


@all_workloads
def test_no_container_may_write_or_gain_rights(example: str, workload: Manifest) -> None:
    for container in containers(workload):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert all(mount["readOnly"] for mount in container["volumeMounts"])


@all_workloads
def test_no_pod_shares_anything_of_its_node(example: str, workload: Manifest) -> None:
    reported = pod(workload)

    assert not {"hostNetwork", "hostPID", "hostIPC"} & reported.keys()
    assert all(volume.keys() <= {"name", "configMap", "secret"} for volume in reported["volumes"])
    assert not any(
        "hostPort" in port
        for container in containers(workload)
        for port in container.get("ports", [])
    )


@all_workloads
def test_no_pod_has_a_token_of_the_cluster(example: str, workload: Manifest) -> None:
    accounts = {
        one["metadata"]["name"]: one["automountServiceAccountToken"]
        for one in of_kind(example, "ServiceAccount")
    }
    assert pod(workload)["automountServiceAccountToken"] is False
    assert accounts[pod(workload)["serviceAccountName"]] is False
    assert pod(workload)["enableServiceLinks"] is False


@all_examples
def test_each_workload_has_an_account_of_its_own(example: str) -> None:
    found = of_kind(example, "Deployment", "StatefulSet", "Job")
    assert len({pod(one)["serviceAccountName"] for one in found}) == len(found)


@all_workloads
def test_each_container_has_requests_and_a_limit_of_memory_and_none_of_cpu(
    example: str, workload: Manifest
) -> None:
    """A limit of CPU would stop the event loop in the middle of calls."""
    for container in containers(workload):
        resources = container["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}
        assert resources["limits"] == {"memory": resources["requests"]["memory"]}


@all_workloads
def test_commands_in_a_pod_of_ours_find_its_settings_without_config(
    example: str, workload: Manifest
) -> None:
    """As in `kubectl exec deploy/prod-worker -- answerbus doctor`."""
    if component(workload) not in {"worker", "console", "shadow"}:
        return
    for container in containers(workload):
        assert f"{container['workingDir']}/{FILE_DEFAULT}" in container["args"]


@all_workloads
def test_each_image_has_a_version(example: str, workload: Manifest) -> None:
    for container in containers(workload):
        assert re.search(r":[\w.\-]+$|@sha256:[0-9a-f]{64}$", container["image"])
        assert not container["image"].endswith(":latest")


@all_workloads
def test_no_secret_stands_in_a_manifest(example: str, workload: Manifest) -> None:
    """Each is a reference to a Secret; there is no manifest of one."""
    assert of_kind(example, "Secret") == []
    for container in containers(workload):
        for variable in container.get("env") or []:
            if variable["name"] in values_of(example).get("secretVariables", {}):
                assert "secretKeyRef" in variable["valueFrom"]


@pytest.mark.parametrize(
    ("example", "name", "secrets"),
    [
        ("secured", "topics", {"kafka-cluster-ca-cert", "acme-admin"}),
        ("console", "console", {"console"}),
        ("tools", "tools-orders", {"orders"}),
        ("strimzi", "tools-orders", {"main-cluster-ca-cert", "prod-tools-orders"}),
    ],
)
def test_what_calls_no_provider_has_no_key_of_one(
    example: str, name: str, secrets: set[str]
) -> None:
    found = of_kind(example, "Deployment", "Job")
    (workload,) = (one for one in found if component(one) == name)
    (container,) = containers(workload)
    variables = [one["valueFrom"] for one in container["env"] or [] if "valueFrom" in one]
    mounted = [one["secret"]["secretName"] for one in pod(workload)["volumes"] if "secret" in one]

    assert {variable["secretKeyRef"]["name"] for variable in variables} | set(mounted) == secrets


@all_examples
def test_each_file_that_the_settings_name_is_mounted(example: str, tmp_path: Path) -> None:
    """Those of the console in its own pod alone: no worker has its key."""
    tables = tomllib.loads(toml_of(example, tmp_path).read_text(encoding="utf-8"))
    of_console = folders_named(tables.pop("console", {}))
    (worker,) = containers(workers(example))
    consoles = (one for one in of_kind(example, "Deployment") if component(one) == "console")

    assert folders_named(tables) <= mounted_at(worker)
    for console in consoles:
        assert of_console <= mounted_at(*containers(console))
        assert not of_console & mounted_at(worker)


@all_examples
def test_workers_have_time_for_their_longest_call(example: str, tmp_path: Path) -> None:
    settings = load(toml_of(example, tmp_path), {})
    longest_s = max(getattr(profile, "timeout_s", 0) for profile in settings.profiles.values())
    grace_s = pod(workers(example))["terminationGracePeriodSeconds"]

    assert settings.worker.drain_s >= longest_s
    assert grace_s >= settings.worker.drain_s + AFTER_DRAIN_S


@all_examples
def test_the_settings_are_what_the_values_say_and_what_answerbus_reads(
    example: str, tmp_path: Path
) -> None:
    given = values_of(example)["settings"]
    settings = load(toml_of(example, tmp_path), {})

    assert settings.profiles.keys() == given["profiles"].keys()
    for name, value in given.get("kafka", {}).items():
        assert str(getattr(settings.kafka, name)) == str(value)


@all_examples
def test_the_topics_job_reads_settings_of_its_own(example: str, tmp_path: Path) -> None:
    jobs = of_kind(example, "Job")
    if values_of(example).get("strimzi", {}).get("topics"):
        assert jobs == []
        return
    (job,) = jobs
    settings = load(toml_of(example, tmp_path, job["metadata"]["name"]), {})
    own = values_of(example).get("topics", {}).get("settings", {}).get("kafka", {})

    assert all(getattr(settings.kafka, name) == value for name, value in own.items())
    assert containers(job)[0]["args"][:2] == ["topics", "apply"]
    before = [*of_kind(example, "ServiceAccount"), *of_kind(example, "ConfigMap"), job]
    hooks = {m["metadata"]["name"]: m["metadata"].get("annotations", {}) for m in before}
    assert hooks[pod(job)["serviceAccountName"]]["helm.sh/hook"] == "pre-install,pre-upgrade"


@all_examples
def test_the_topics_job_brings_the_policy_by_which_it_reaches_kafka(example: str) -> None:
    """Those of the release are written after it: an upgrade may name another port of Kafka."""
    policies = {one["metadata"]["name"]: one for one in of_kind(example, "NetworkPolicy")}
    for job in of_kind(example, "Job"):
        own, labels = policies[job["metadata"]["name"]], job["spec"]["template"]["metadata"]
        assert own["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert own["spec"]["podSelector"]["matchLabels"].items() <= labels["labels"].items()
        assert own["spec"]["egress"] == policies["prod-all"]["spec"]["egress"]


@all_examples
def test_a_new_version_never_takes_a_worker_away_before_another_is_there(example: str) -> None:
    found = workers(example)
    if found["kind"] == "StatefulSet":
        assert found["spec"]["podManagementPolicy"] == "Parallel"
        return
    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert found["spec"]["minReadySeconds"] >= AFTER_DRAIN_S


@all_examples
def test_liveness_waits_longer_than_a_stuck_lane(example: str) -> None:
    """`/ready` is for alerts: as a probe it would block deploys while a provider is away."""
    (one,) = containers(workers(example))
    live = one["livenessProbe"]

    assert live["httpGet"]["path"] == "/live"
    assert live["periodSeconds"] * live["failureThreshold"] > WorkerSettings().stuck_after_s
    assert one["readinessProbe"]["httpGet"]["path"] == "/started"


@all_examples
def test_only_fixed_numbers_of_workers_have_static_ids(example: str) -> None:
    (one,) = containers(workers(example))
    names = {variable["name"] for variable in one["env"]}
    is_fixed = workers(example)["kind"] == "StatefulSet"

    assert ("ANSWERBUS_KAFKA__GROUP_INSTANCE_ID" in names) is is_fixed
    assert not (is_fixed and of_kind(example, "ScaledObject"))


@all_examples
def test_no_more_workers_than_lanes(example: str, tmp_path: Path) -> None:
    partitions = load(toml_of(example, tmp_path), {}).kafka.partitions

    assert workers(example)["spec"].get("replicas", 1) <= partitions
    for one in of_kind(example, "ScaledObject"):
        assert 1 <= one["spec"]["minReplicaCount"] <= one["spec"]["maxReplicaCount"] <= partitions
        assert "replicas" not in workers(example)["spec"]


@all_examples
def test_disruptions_take_one_at_a_time(example: str) -> None:
    if not values_of(example).get("podDisruptionBudget", {}).get("enabled", True):
        return
    budgets = {component(one): one for one in of_kind(example, "PodDisruptionBudget")}
    tools = {component(one) for one in of_kind(example, "Deployment") if "tools" in component(one)}

    assert budgets.keys() == {"worker"} | tools
    assert {budget["spec"]["maxUnavailable"] for budget in budgets.values()} == {1}


@all_examples
def test_nothing_comes_in_that_is_not_named_and_little_goes_out(example: str) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(example, "NetworkPolicy")}
    everything = policies["prod-all"]

    assert everything["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in everything
    ports = {port["port"] for rule in everything["egress"] for port in rule["ports"]}
    kafka = values_of(example)["settings"].get("kafka", {}).get("bootstrap_servers", ":9092")
    assert ports == {53, 4318} | {int(one.rpartition(":")[2]) for one in kafka.split(",")}
    for one in of_kind(example, "Deployment", "StatefulSet", "Job"):
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert everything["podSelector"]["matchLabels"].items() <= labels.items()


@all_examples
def test_workers_reach_the_providers_of_their_profiles(example: str) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(example, "NetworkPolicy")}
    (rule,) = policies["prod-worker"]["egress"]
    addresses = [
        urlsplit(profile.get("base_url", "https://api.provider.example"))
        for profile in values_of(example)["settings"]["profiles"].values()
    ]
    assert {one.port or 443 for one in addresses} <= {port["port"] for port in rule["ports"]}


def test_pods_that_call_providers_have_their_identity_at_the_cloud_and_no_others() -> None:
    values = changed("observed", identity=values_of("identity")["identity"])
    made = list(render(values))
    labelled = {
        component(one)
        for one in made
        if one["kind"] in {"Deployment", "Job"}
        and "azure.workload.identity/use" in one["spec"]["template"]["metadata"]["labels"]
    }
    annotated = {
        component(one)
        for one in made
        if one["kind"] == "ServiceAccount"
        and "azure.workload.identity/client-id" in one["metadata"].get("annotations", {})
    }
    assert labelled == annotated == {"worker", "shadow"}


@all_examples
def test_selectors_find_just_the_pods_they_are_for(example: str) -> None:
    pods = {
        component(one): one["spec"]["template"]["metadata"]["labels"]
        for one in of_kind(example, "Deployment", "StatefulSet", "Job")
    }
    for owner, selector in selectors(example):
        found = {name for name, labels in pods.items() if selector.items() <= labels.items()}
        assert found == {owner}


def selectors(example: str) -> Iterator[tuple[str, dict[str, str]]]:
    for one in of_kind(example, "Deployment", "StatefulSet", "PodDisruptionBudget"):
        yield component(one), one["spec"]["selector"]["matchLabels"]
    for one in of_kind(example, "Service"):
        yield component(one), one["spec"]["selector"]
    for one in of_kind(example, "PodMonitor"):
        owner = "shadow" if component(one) == "shadow" else "worker"
        yield owner, one["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("sections", "link"),
    [
        ({}, "runbook: docs/runbooks/{}.md"),
        (
            {"monitoring": {"console": "https://bus.acme.example"}},
            "runbook_url: https://bus.acme.example/runbooks/{}",
        ),
        (
            {"settings": {"console": {"public_url": "https://bus.acme.example/"}}},
            "runbook_url: https://bus.acme.example/runbooks/{}",
        ),
    ],
    ids=["without a console", "named", "from the settings"],
)
def test_alerts_and_dashboard_are_ours_and_link_the_console(
    sections: dict[str, Any], link: str
) -> None:
    """Without an address of the console there is no link: none is better than a dead one."""
    values = changed("observed", **sections)
    values["monitoring"]["podMonitor"] = False  # see test_chart_alerts.py
    local, found = "http://127.0.0.1:8090", list(render(values))
    (alerts,) = (one["spec"] for one in found if one["kind"] == "PrometheusRule")
    (board,) = (one["data"] for one in found if "answerbus.json" in one.get("data", {}))

    ours = (ROOT / "infra/prometheus/alerts.yml").read_text(encoding="utf-8")
    expected = re.sub(
        f"runbook_url: {local}/runbooks/(.+)", lambda found: link.format(found[1]), ours
    )
    assert alerts == yaml.safe_load(expected)
    text = (ROOT / "infra/grafana/answerbus.json").read_text(encoding="utf-8")
    expected = text.replace(local, "https://bus.acme.example") if sections else text
    assert board["answerbus.json"].strip() == expected.strip()


def test_the_scaling_query_asks_for_what_there_is_and_waits_while_a_profile_is_throttled() -> None:
    (one,) = of_kind("autoscaled", "ScaledObject")
    (trigger,) = one["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    named = set(re.findall(r"answerbus_\w+", query))

    promql.parse(query)
    assert named <= {metric.name for metric in METRICS}
    assert "unless on() (max(answerbus_profile_throttled" in query
    assert query.endswith(f"or on() vector({trigger['metadata']['threshold']})")
    assert trigger["metricType"] == "Value"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (changed("minimal", workers={"replicas": 13}), "exceed settings.kafka.partitions (12)"),
        (changed("autoscaled", autoscaling={"maxReplicas": 13}), "maxReplicas (13) exceeds"),
        (changed("autoscaled", autoscaling={"minReplicas": 0}), "minReplicas"),
        (changed("autoscaled", autoscaling={"prometheus": ""}), "needs autoscaling.prometheus"),
        (changed("autoscaled", workers={"kind": "StatefulSet"}), "needs workers.kind Deployment"),
        (changed("strimzi", strimzi={"cluster": ""}), "strimzi needs strimzi.cluster"),
        (changed("minimal", console={"enabled": True}), "needs a token"),
        (changed("minimal", shadow={"enabled": True}), "needs a profile that has one"),
        (changed("minimal", workers={"replica": 1}), "replica"),
        (changed("minimal", image={"digest": "sha256:1"}), "digest"),
        (changed("minimal", secretVariables={"lower": {"secret": "a", "key": "b"}}), "lower"),
    ],
)
def test_values_that_cannot_work_are_refused_in_one_sentence(
    values: dict[str, Any], text: str
) -> None:
    with pytest.raises(RenderError, match=re.escape(text)):
        list(render(values))


def test_a_password_in_an_address_is_refused() -> None:
    """It would stand in a ConfigMap, where everybody may read it."""
    values = values_of("tenant")
    values["settings"]["profiles"]["default"]["base_url"] = "http://me:pass@vllm.models:8000/v1"
    with pytest.raises(RenderError, match="ANSWERBUS_PROFILES__DEFAULT__BASE_URL in secretVar"):
        list(render(values))


def test_a_drain_that_is_shorter_than_a_call_is_refused() -> None:
    values = values_of("autoscaled")
    values["settings"]["profiles"]["slow"] = {"provider": "openai", "timeout_s": 900}
    with pytest.raises(RenderError, match="shorter than the longest timeout_s"):
        list(render(values))


def test_memory_follows_from_the_load() -> None:
    """300 MB, 2.1 MB for each request a second, accounts, and the lanes of two of three workers."""
    accounts = 110 * 604_800 / 1_048_576
    (found,) = containers(workers("static"))
    assert found["resources"]["limits"] == {
        "memory": f"{math.ceil(300 + 210 + accounts + 6 * 32)}Mi"
    }


def test_the_chart_has_the_version_of_what_it_installs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))

    assert chart["version"] == chart["appVersion"] == version_of(SERVICES)


def test_every_value_is_declared_and_has_a_default() -> None:
    """So that the file of values is the whole list of what can be changed."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    assert schema["properties"].keys() - {"global"} == values.keys()
    for name, section in schema["properties"].items():
        if section.get("additionalProperties") is False and name != "settings":
            assert section["properties"].keys() == values[name].keys(), name


def test_all_pods_go_to_the_nodes_that_are_named_and_workers_to_their_own() -> None:
    values = values_of("tools") | {"nodeSelector": {"pool": "all"}, "tolerations": [{"key": "all"}]}
    values["console"] = {"enabled": True, "secretVariables": {"A": {"secret": "a", "key": "a"}}}
    values["settings"]["console"] = {"operator_token_env": "A"}
    values["workers"] = {"nodeSelector": {"pool": "paid"}, "tolerations": [{"key": "paid"}]}
    rendered = [one for one in render(values) if one["kind"] in {"Deployment", "Job"}]
    found = {component(one): pod(one) for one in rendered}

    assert {"worker", "console", "topics"} < found.keys()
    for name, one in found.items():
        pool = "paid" if name == "worker" else "all"
        assert one["nodeSelector"] == {"pool": pool}
        assert one["tolerations"] == [{"key": pool}]
