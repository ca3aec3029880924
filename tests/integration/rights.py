"""What USER may do on a broker: rights that an administrator gives, and takes back."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types hide them
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

USER, PASSWORD = "worker", "correct-horse"
PASSWORD_ENV = "TEST_KAFKA_PASSWORD"
ADMIN_LIMIT_S = 20.0
LOOK_AGAIN_S = 0.05
_ANY: Any = None  # name, user or host
EVERY_RIGHT = AclBindingFilter(
    ResourceType.ANY,
    _ANY,
    ResourcePatternType.ANY,
    _ANY,
    _ANY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
READ, WRITE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)
TOPIC, GROUP, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
)


class Rights(ABC):
    """See the module."""

    @property
    @abstractmethod
    def plain(self) -> str:
        """The administrator's way in."""

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Grant USER rights on what is called so, or begins so if the name ends with a star."""
        self.grant([self._binding(AclBinding, kind, name, operation) for operation in operations])

    def grant(self, bindings: Sequence[AclBinding]) -> None:
        """Add them, and wait until the broker goes by them: it follows its controller."""
        self.administer(lambda admin: admin.create_acls(list(bindings)))
        deadline = time.monotonic() + ADMIN_LIMIT_S
        while not {*bindings} <= {*self._in_force()}:
            assert time.monotonic() < deadline, "the broker does not show new rights"
            time.sleep(LOOK_AGAIN_S)

    def _in_force(self) -> Sequence[AclBinding]:
        admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
        found: Sequence[AclBinding] = admin.describe_acls(EVERY_RIGHT).result(ADMIN_LIMIT_S)
        return found

    def revoke(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Take back rights that were granted."""
        assert self.remove(kind, name, *operations), f"{name}: there was no such right"

    def remove(self, kind: ResourceType, name: str, *operations: AclOperation) -> bool:
        """Take rights back; whether all of them were granted."""
        filters = [
            self._binding(AclBindingFilter, kind, name, operation) for operation in operations
        ]
        return all(self.administer(lambda admin: admin.delete_acls(filters)))

    def allow_worker(self, prefix: str) -> None:
        """All that a worker needs."""
        self.allow(TOPIC, f"{prefix}.*", READ, WRITE, DESCRIBE)
        self.allow(GROUP, f"{prefix}.worker", READ)
        self.allow(TRANSACTIONAL_ID, f"{prefix}.lane.*", WRITE, DESCRIBE)

    def set_scram_password(self, password: str, user: str = USER) -> None:
        """Let a user in by SCRAM, with this password and no other."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(user, info, password.encode())
            self.administer(partial(_alter, change))

    def administer(self, asked: Callable[[AdminClient], Mapping[Any, Any]]) -> list[Any]:
        """Ask the broker, and wait until it has done so."""
        admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
        return [future.result(ADMIN_LIMIT_S) for future in asked(admin).values()]

    def _binding(self, kind: Any, of: ResourceType, name: str, operation: AclOperation) -> Any:
        pattern = (
            ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
        )
        plain = name.removesuffix("*")
        return kind(of, plain, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)


def _alter(change: UserScramCredentialUpsertion, admin: AdminClient) -> Mapping[Any, Any]:
    changed: Mapping[Any, Any] = admin.alter_user_scram_credentials([change])
    return changed
