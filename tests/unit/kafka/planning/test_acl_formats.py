"""Rights as they are printed can be read back, by the tools that take them."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from services.kafka.planning.acl_formats import OPTIONAL, Grantee, rendered
from services.kafka.planning.rights import ROLES, ResourceNames, Right, Role, rights_of

NAMES = ResourceNames("acme", "acme.worker", "billing", "orders")
CRD = Path(__file__).parents[4].parent / "shared" / "crds" / "strimzi-kafkauser.yaml"
ODD = Right("topic", "a b'c$(x)\"${y}", "Read", "an odd name")
Row = tuple[str, str, str, bool]


def row(right: Right) -> Row:
    return (right.resource, right.name, right.operation, right.is_prefix)


def of_kafka(text: str) -> list[Row]:
    options = {"--topic": "topic", "--group": "group", "--transactional-id": "transactional_id"}
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        words = shlex.split(line)
        assert words[:6] == [
            *("kafka-acls.sh", "--bootstrap-server", "$BOOTSTRAP"),
            *("--command-config", "$ADMIN_CONFIG", "--add"),
        ]
        reported = dict(zip(words[6:], [*words[7:], ""], strict=True))
        assert reported["--allow-principal"] == "User:ann"
        named = [(kind, reported[option]) for option, kind in options.items() if option in reported]
        ((kind, name),) = named or [("cluster", "kafka-cluster")]
        is_prefix = reported.get("--resource-pattern-type") == "prefixed"
        found.append((kind, name, reported["--operation"], is_prefix))
    return found


def user(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def of_strimzi(text: str) -> list[Row]:
    assert user(text)["metadata"]["name"] == "ann"
    return [
        (
            acl["resource"]["type"].replace("transactionalId", "transactional_id"),
            acl["resource"].get("name", "kafka-cluster"),
            operation,
            acl["resource"].get("patternType") == "prefix",
        )
        for acl in user(text)["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    ]


def of_terraform(text: str) -> list[Row]:
    blocks = re.findall(
        r'^resource "kafka_acl" "([a-z][a-z0-9_]*)" \{\n(.*?)^\}$', text, re.M | re.S
    )
    names = [name for name, _ in blocks]
    assert len(set(names)) == len(names)
    found = []
    for _, body in blocks:
        fields = {
            name: value.replace("$${", "${").encode().decode("unicode_escape")
            for name, value in re.findall(r'^  (\w+) += "(.*)"$', body, re.M)
        }
        assert (fields["acl_principal"], fields["acl_host"]) == ("User:ann", "*")
        kind = fields["resource_type"].lower().replace("transactionalid", "transactional_id")
        is_prefix = fields["resource_pattern_type_filter"] == "Prefixed"
        found.append((kind, fields["resource_name"], fields["acl_operation"], is_prefix))
    return found


@pytest.mark.parametrize("role", ROLES)
def test_each_format_says_all_rights_and_no_more(role: Role) -> None:
    rights = rights_of(role, NAMES)
    ann = Grantee(role, "ann")

    assert of_kafka(rendered("kafka", ann, rights)) == list(map(row, rights))
    assert of_strimzi(rendered("strimzi", ann, rights)) == list(map(row, rights))
    assert of_terraform(rendered("terraform", ann, rights)) == list(map(row, rights))


def test_unusual_names_are_quoted() -> None:
    ann = Grantee("app", "ann")

    assert of_kafka(rendered("kafka", ann, [ODD])) == [row(ODD)]
    assert of_strimzi(rendered("strimzi", ann, [ODD])) == [row(ODD)]
    assert of_terraform(rendered("terraform", ann, [ODD])) == [row(ODD)]


def test_a_right_that_may_be_left_out_is_marked() -> None:
    rights = rights_of("worker", NAMES)
    marked = rendered("kafka", Grantee("worker", "ann"), rights).count(f"# {OPTIONAL}")

    assert marked == sum(not right.needed for right in rights) > 0


@pytest.mark.parametrize("role", ROLES)
def test_strimzis_schema_takes_the_user(role: Role) -> None:
    if not CRD.exists():
        pytest.skip("the schemas of Strimzi are not here")
    crd = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    printed = user(rendered("strimzi", Grantee(role, "ann"), rights_of(role, NAMES)))
    group, version = printed["apiVersion"].split("/")
    (schema,) = (
        it["schema"]["openAPIV3Schema"] for it in crd["spec"]["versions"] if it["name"] == version
    )

    assert group == crd["spec"]["group"]
    assert list(Draft202012Validator(schema).iter_errors(printed)) == []
