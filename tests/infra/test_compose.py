"""docker-compose.yml: valid by Compose's own schema, and each service's command is one there is."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft201909Validator

from answerbus.tools.server import DRAIN_S_DEFAULT
from answerbus.topics import PREFIX_DEFAULT
from infra.docker_rights import FILE, NAMES, ROLES, script
from services.cli import application
from services.kafka.planning.acl_formats import Grantee, rendered
from services.kafka.planning.rights import Role, rights_of
from services.settings.profiles import OpenAIProfile
from services.settings.settings import load
from tests.compose.granting import rows_of
from tests.infra.compose import ROOT, broker_properties, document, environment, of_profile, services

SCHEMA = Path(__file__).with_name("compose-spec.json")  # of compose-spec/compose-spec, Apache-2.0
OURS = {name: one for name, one in services().items() if one.get("image") == "answerbus-services"}
AFTER_DRAIN_S = 20


def test_compose_accepts_the_file() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema.pop("$schema").startswith("http://json-schema.org/draft/2019-09/")
    validator = Draft201909Validator(schema)

    fields = {key: value for key, value in document().items() if key != "name"}  # it is older

    assert [error.message for error in validator.iter_errors(fields)] == []
    wrong = {**fields, "services": {"worker": {"imagee": "x"}}}
    assert not validator.is_valid(wrong)


def test_each_service_has_its_profile() -> None:
    assert (ROOT / ".env").read_text(encoding="utf-8") == "COMPOSE_PROFILES=default\n"
    assert of_profile("default").keys() == {"kafka", "topics", "local-model", "worker", "tools"}
    assert {"kafka-1", "kafka-2", "kafka-3", "cluster-worker"} < of_profile("cluster").keys()
    assert of_profile("observability").keys() == {"prometheus", "grafana", "collector"}
    for name, one in services().items():
        others = {other for profile in one["profiles"] for other in of_profile(profile)}
        assert set(one.get("depends_on", {})) <= others, name


@pytest.mark.parametrize("name", OURS)
def test_our_commands_are_there_and_their_settings_are_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = OURS[name]
    command: Any = typer.main.get_command(application())
    words = list(service["command"])
    while hasattr(command, "get_command"):
        command = command.get_command(None, words.pop(0))
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options

    (mounted,) = (one for one in service["volumes"] if one.endswith("answerbus.toml:ro"))
    file = ROOT / mounted.partition(":")[0]
    assert mounted.split(":")[1] == words[words.index("--config") + 1]
    settings = load(file, environment(service))
    brokers = {one.partition(":")[0] for one in settings.kafka.bootstrap_servers.split(",")}
    assert brokers <= services().keys()
    (profile,) = settings.profiles.values()
    assert isinstance(profile, OpenAIProfile)
    assert profile.api_key_env in environment(service)


@pytest.mark.parametrize("name", OURS)
def test_our_containers_may_not_write_or_gain_rights(name: str) -> None:
    service = OURS[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]


@pytest.mark.parametrize("name", ["worker", "cluster-worker"])
def test_workers_have_time_for_their_longest_call(name: str) -> None:
    settings = load(ROOT / "infra/answerbus.docker.toml", {})
    longest_s = max(getattr(profile, "timeout_s", 0) for profile in settings.profiles.values())

    assert settings.worker.drain_s >= longest_s
    grace_s = float(services()[name]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= settings.worker.drain_s + AFTER_DRAIN_S


@pytest.mark.parametrize("name", ["tools", "cluster-tools"])
def test_tool_servers_have_time_for_what_runs(name: str) -> None:
    grace_s = float(services()[name]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= DRAIN_S_DEFAULT + AFTER_DRAIN_S


def test_what_is_mounted_is_there() -> None:
    named = set(document()["volumes"])
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), name
            else:
                assert source in named, name


@pytest.mark.parametrize(
    ("worker", "tools"), [("worker", "tools"), ("cluster-worker", "cluster-tools")]
)
def test_the_toolsets_of_agents_are_served_beside_their_workers(worker: str, tools: str) -> None:
    agents = load(ROOT / "infra/answerbus.docker.toml", {}).agents.values()
    served = services()[tools]["command"][2]
    module, _, name = served.partition(":")

    assert services()[worker]["profiles"] == services()[tools]["profiles"]
    toolset = getattr(import_module(module), name).name
    assert {tool.partition(".")[0] for agent in agents for tool in agent.tools} == {toolset}


def test_ports_are_open_to_this_machine_alone() -> None:
    for service in services().values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_brokers_of_the_cluster_form_one_and_differ_by_their_names_alone() -> None:
    brokers = {n: broker_properties(services()[f"kafka-{n}"]) for n in (1, 2, 3)}

    for number, properties in brokers.items():
        own = {
            "node.id": str(number),
            "advertised.listeners": f"SECURED://kafka-{number}:9092",
            "ssl.keystore.location": f"/certificates/kafka-{number}.p12",
        }
        assert {name: properties.pop(name) for name in own} == own
    assert brokers[1] == brokers[2] == brokers[3]
    assert brokers[1]["listener.security.protocol.map"] == "SECURED:SASL_SSL,CONTROLLER:SASL_SSL"
    assert shlex.join(services()["certificates"]["command"]).endswith("kafka-1 kafka-2 kafka-3")


def test_the_cluster_lets_each_user_do_what_its_role_does_and_no_more() -> None:
    properties = broker_properties(services()["kafka-1"])
    assert properties["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert properties["super.users"] == "User:broker"
    assert "allow.everyone.if.no.acl.found" not in properties

    jaas = properties["listener.name.secured.plain.sasl.jaas.config"]
    known = set(re.findall(r"user_([\w-]+)=", jaas)) - {"broker"}
    ours = {
        environment(one)["ANSWERBUS_KAFKA__SASL_PLAIN_USERNAME"]
        for one in of_profile("cluster").values()
        if one in OURS.values()
    }
    assert known == ours == {f"{PREFIX_DEFAULT}-{role}" for role in ROLES}
    assert (ROOT / FILE).read_text(encoding="utf-8") == script(), "run `make chart`"


@pytest.mark.parametrize("role", ROLES)
def test_the_script_of_rights_grants_what_is_printed_for_a_role(role: Role) -> None:
    """Row by row: its commands have many rows each."""
    printed = rendered("kafka", Grantee(role, f"{PREFIX_DEFAULT}-{role}"), rights_of(role, NAMES))

    granted = rows(script(), "grant", f"User:{PREFIX_DEFAULT}-{role}")

    assert sorted(granted) == sorted(
        rows(printed, "kafka-acls.sh", f"User:{PREFIX_DEFAULT}-{role}")
    )


def rows(text: str, command: str, principal: str) -> Iterator[tuple[str, ...]]:
    """Operation, pattern and resource of each right in the commands for one user."""
    for line in text.splitlines():
        if line.startswith(f"{command} ") and principal in shlex.split(line):
            yield from rows_of(shlex.split(line))


def test_prometheus_and_the_collector_are_where_others_look_for_them() -> None:
    scraped = yaml.safe_load((ROOT / "infra/prometheus/prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    collector = yaml.safe_load((ROOT / "infra/docker/collector.yaml").read_text())
    (source,) = yaml.safe_load(
        (ROOT / "infra/grafana/provisioning/datasources/prometheus.yml").read_text()
    )["datasources"]

    assert set(found["names"]) <= services().keys()
    settings = load(ROOT / "infra/answerbus.docker.toml", {})
    assert settings.worker.health == f"0.0.0.0:{found['port']}"
    mounts = [service.split(":")[1] for service in services()["prometheus"]["volumes"]]
    assert {f"/etc/prometheus/{name}" for name in scraped["rule_files"]} <= set(mounts)
    assert source["url"] == "http://prometheus:9090"
    assert collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == "0.0.0.0:4318"
    for pipeline in collector["service"]["pipelines"].values():
        assert set(pipeline["exporters"]) <= collector["exporters"].keys()


def test_the_collector_that_is_tried_has_the_version_of_its_image() -> None:
    module = (ROOT / "tests/compose/collector/go.mod").read_text(encoding="utf-8")
    (built,) = re.findall(r"collector/otelcol v(\S+)$", module, re.MULTILINE)

    assert document()["services"]["collector"]["image"].endswith(f":{built}")
