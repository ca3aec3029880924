"""Formats of rights: `kafka-acls.sh`, Strimzi's KafkaUser, Terraform."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from services.kafka.planning.rights import Resource, Right, Role

AclFormat = Literal["kafka", "strimzi", "terraform"]
OPTIONAL = "optional: "  # before the reason of a right that may be left out
_OPTIONS: Mapping[Resource, str] = {
    "topic": "--topic",
    "group": "--group",
    "transactional_id": "--transactional-id",
}
_STRIMZI: Mapping[Resource, str] = {
    "topic": "topic",
    "group": "group",
    "transactional_id": "transactionalId",
    "cluster": "cluster",
}
_TERRAFORM: Mapping[Resource, str] = {
    "topic": "Topic",
    "group": "Group",
    "transactional_id": "TransactionalID",
    "cluster": "Cluster",
}


@dataclass(frozen=True, slots=True)
class Grantee:
    """The holder of rights: a role, and its user."""

    role: Role
    user: str


def rendered(style: AclFormat, grantee: Grantee, rights: Sequence[Right]) -> str:
    """The rights of a role as a text that ends with a line break."""
    return "\n".join(_FORMATS[style](grantee, rights)) + "\n"


def _kafka(grantee: Grantee, rights: Sequence[Right]) -> Iterator[str]:
    yield f"# The role {grantee.role}; BOOTSTRAP and ADMIN_CONFIG are of one who may grant rights."
    principal = shlex.quote(f"User:{grantee.user}")
    for right in rights:
        yield f"# {_reason(right)}"
        if right.resource == "cluster":
            where = "--cluster"
        else:
            where = f"{_OPTIONS[right.resource]} {shlex.quote(right.name)}"
        pattern = " --resource-pattern-type prefixed" if right.is_prefix else ""
        yield (
            'kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN_CONFIG" --add '
            f"--allow-principal {principal} --operation {right.operation} {where}{pattern}"
        )


def _strimzi(grantee: Grantee, rights: Sequence[Right]) -> Iterator[str]:
    yield f"# The role {grantee.role}. Add the label of your cluster, and how the user comes in."
    yield "apiVersion: kafka.strimzi.io/v1"
    yield "kind: KafkaUser"
    yield "metadata:"
    yield f"  name: {json.dumps(grantee.user)}"
    yield "spec:"
    yield "  authorization:"
    yield "    type: simple"
    yield "    acls:"
    for right in rights:
        yield f"      # {_reason(right)}"
        yield "      - resource:"
        yield f"          type: {_STRIMZI[right.resource]}"
        if right.resource != "cluster":
            yield f"          name: {json.dumps(right.name)}"
            yield f"          patternType: {'prefix' if right.is_prefix else 'literal'}"
        yield f"        operations: [{right.operation}]"


def _terraform(grantee: Grantee, rights: Sequence[Right]) -> Iterator[str]:
    """Of the provider Mongey/kafka."""
    yield f"# The role {grantee.role}."
    for right in rights:
        name = _identifier(f"{grantee.user}_{right.operation}_{right.resource}_{right.name}")
        pattern = "Prefixed" if right.is_prefix else "Literal"
        yield f"# {_reason(right)}"
        yield f'resource "kafka_acl" "{name}" {{'
        yield f"  resource_type                = {_hcl(_TERRAFORM[right.resource])}"
        yield f"  resource_name                = {_hcl(right.name)}"
        yield f"  resource_pattern_type_filter = {_hcl(pattern)}"
        yield f"  acl_principal                = {_hcl(f'User:{grantee.user}')}"
        yield '  acl_host                     = "*"'
        yield f"  acl_operation                = {_hcl(right.operation)}"
        yield '  acl_permission_type          = "Allow"'
        yield "}"


def _reason(right: Right) -> str:
    return right.why if right.needed else f"{OPTIONAL}{right.why}"


def _hcl(text: str) -> str:
    """A literal in HCL, where `${` and `%{` would begin a template."""
    return json.dumps(text).replace("${", "$${").replace("%{", "%%{")


def _identifier(text: str) -> str:
    """The name of a resource: distinct ones for distinct rights."""
    plain = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", text.lower())
    return re.sub(r"_2e_|_2d_|_5f_", "_", plain).strip("_")


_FORMATS: Mapping[AclFormat, Callable[[Grantee, Sequence[Right]], Iterator[str]]] = {
    "kafka": _kafka,
    "strimzi": _strimzi,
    "terraform": _terraform,
}
