"""Rights granted and taken back row by row, exactly as `topics acls --format kafka` prints them."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types hide them
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from services.kafka.planning.acl_formats import Grantee, rendered
from services.kafka.planning.rights import Right, Role
from tests.integration.rights import USER, Rights

RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Alter": AclOperation.ALTER,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}


@dataclass(frozen=True)
class Granting:
    """Rows of a role on a broker, for its one user."""

    rights: Rights
    role: Role

    def grant(self, rows: Sequence[Right]) -> None:
        self.rights.grant([self._of(AclBinding, row) for row in rows])

    def take_back(self, row: Right) -> None:
        assert all(self._removed([row])), "there was no such right"

    def clear(self, rows: Sequence[Right]) -> None:
        """Take back those that there are."""
        self._removed(rows)

    def _removed(self, rows: Sequence[Right]) -> list[Any]:
        filters = [self._of(AclBindingFilter, row) for row in rows]
        return self.rights.administer(lambda admin: admin.delete_acls(filters))

    def _of(self, kind: Any, row: Right) -> Any:
        """What `kafka-acls.sh` would do of a printed line."""
        text = rendered("kafka", Grantee(self.role, USER), [row])
        (line,) = (line for line in text.splitlines() if not line.startswith("#"))
        words = shlex.split(line)

        def after(option: str) -> str:
            return words[words.index(option) + 1]

        if "--cluster" in words:
            resource, name = ResourceType.BROKER, "kafka-cluster"
        else:
            option = next(it for it in RESOURCES if it in words)
            resource, name = RESOURCES[option], after(option)
        is_prefix = "--resource-pattern-type" in words
        return kind(
            resource,
            name,
            ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL,
            after("--allow-principal"),
            "*",
            OPERATIONS[after("--operation")],
            AclPermissionType.ALLOW,
        )
