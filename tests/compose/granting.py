"""What `kafka-acls.sh --add` does, for infra/docker/rights.sh without an engine.

python -m tests.compose.granting --bootstrap-server … --command-config … --add …
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types hide them
    AclBinding,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.granting import OPERATIONS, RESOURCES

LIMIT_S = 60.0
CLUSTER = "kafka-cluster"
Row = tuple[str, str, str, str]
"""Operation, pattern, option of the resource, its name."""


def after(words: Sequence[str], option: str) -> str:
    return words[words.index(option) + 1]


def rows_of(words: Sequence[str]) -> Iterator[Row]:
    """One for each resource that a command names."""
    is_prefix = "--resource-pattern-type" in words
    pattern = after(words, "--resource-pattern-type") if is_prefix else "literal"
    for number, word in enumerate(words):
        if word in RESOURCES:
            yield after(words, "--operation"), pattern, word, words[number + 1]
        elif word == "--cluster":
            yield after(words, "--operation"), pattern, word, CLUSTER


def options_of(file: Path) -> dict[str, str]:
    """A client's options in librdkafka's words, of a file in Java's."""
    text = file.read_text(encoding="utf-8")
    reported = dict(re.findall(r"^([\w.]+)=(.*)$", text, re.MULTILINE))
    jaas = dict(re.findall(r"(username|password)=\"([^\"]*)\"", text))
    return {
        "security.protocol": reported["security.protocol"],
        "sasl.mechanism": reported["sasl.mechanism"],
        "sasl.username": jaas["username"],
        "sasl.password": jaas["password"],
        "ssl.ca.location": reported["ssl.truststore.location"],
    }


def binding(principal: str, row: Row) -> AclBinding:
    operation, pattern, option, name = row
    return AclBinding(
        RESOURCES.get(option, ResourceType.BROKER),
        name,
        ResourcePatternType.PREFIXED if pattern == "prefixed" else ResourcePatternType.LITERAL,
        principal,
        "*",
        OPERATIONS[operation],
        AclPermissionType.ALLOW,
    )


def main(words: Sequence[str]) -> None:
    options = options_of(Path(after(words, "--command-config")))
    place: dict[str, str | int | float] = {
        "bootstrap.servers": after(words, "--bootstrap-server"),
        "log_level": 0,
    }
    admin = AdminClient({**place, **options})
    principal = after(words, "--allow-principal")
    asked = admin.create_acls([binding(principal, row) for row in rows_of(words)])
    for future in asked.values():
        future.result(LIMIT_S)


if __name__ == "__main__":
    main(sys.argv[1:])
