"""Writes infra/docker/rights.sh: the rights of the users in docker-compose.yml."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from answerbus.topics import PREFIX_DEFAULT
from services.kafka.planning.rights import Resource, ResourceNames, Right, Role, rights_of

FILE = Path("infra/docker/rights.sh")
ROLES: tuple[Role, ...] = ("admin", "worker", "app", "tools")  # whose users the file has
NAMES = ResourceNames(PREFIX_DEFAULT, f"{PREFIX_DEFAULT}.worker", f"{PREFIX_DEFAULT}-app")
_HEAD = """\
#!/usr/bin/env bash
# Written by `make chart` from the table of `answerbus topics acls`: rows of one operation together,
# since each command takes a second or two. USER and PASSWORD are of one who may grant rights.
set -euo pipefail
PATH=$PATH:/opt/kafka/bin
config=$(mktemp)
trap 'rm -f "$config"' EXIT
cat >"$config" <<END
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
	username="$GRANTING_USER" password="$GRANTING_PASSWORD";
ssl.truststore.type=PEM
ssl.truststore.location=/certificates/ca.pem
END
grant() {
	kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$config" --add "$@" >/dev/null
}
"""
_OPTIONS: Mapping[Resource, str] = {
    "topic": "--topic",
    "group": "--group",
    "transactional_id": "--transactional-id",
}


def script() -> str:
    return _HEAD + "".join(f"\n# {role}\n{_of_role(role)}" for role in ROLES)


def _of_role(role: Role) -> str:
    found: dict[tuple[str, bool], list[Right]] = {}
    for right in rights_of(role, NAMES):
        found.setdefault((right.operation, right.is_prefix), []).append(right)
    return "".join(f"{shlex.join(_grant(role, rights))}\n" for rights in found.values())


def _grant(role: Role, rights: Iterable[Right]) -> Iterator[str]:
    first, *_ = rights = [*rights]
    yield from ("grant", "--allow-principal", f"User:{PREFIX_DEFAULT}-{role}")
    yield from ("--operation", first.operation)
    if first.is_prefix:
        yield from ("--resource-pattern-type", "prefixed")
    for right in rights:
        is_cluster = right.resource == "cluster"
        yield from ("--cluster",) if is_cluster else (_OPTIONS[right.resource], right.name)


if __name__ == "__main__":
    FILE.write_text(script(), encoding="utf-8")
