"""A broker that lets in only those it knows, by password or certificate, and only as far as told.

Its plain listener is that of an administrator, for the tests themselves.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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

from infra.kafka import Broker, start_broker
from infra.ports import LOOPBACK, free_ports
from tests.integration.certificates import Authority

USER, PASSWORD = "worker", "correct-horse"
ADMIN_LIMIT_S = 20.0
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


@dataclass(frozen=True)
class Secured:
    """The broker, its listeners by security protocol, and who signs certificates."""

    broker: Broker
    ports: Mapping[str, int]
    authority: Authority

    @property
    def plain(self) -> str:
        """The administrator's way in."""
        return self.broker.bootstrap_servers

    def at(self, protocol: str) -> str:
        """The address of a listener."""
        return f"{LOOPBACK}:{self.ports[protocol]}"

    def settings(self, protocol: str, **more: Any) -> dict[str, Any]:
        """What `[kafka]` needs to come in there as USER."""
        table: dict[str, Any] = {
            "bootstrap_servers": self.at(protocol),
            "security_protocol": protocol,
        }
        if protocol.startswith("SASL"):
            table["sasl_plain_username"] = USER
            table["sasl_plain_password_env"] = "TEST_KAFKA_PASSWORD"
        if protocol.endswith("SSL"):
            table["ssl_cafile"] = str(self.authority.file)
        if protocol == "SSL":
            signed = self.authority.signs(USER)
            table |= {"ssl_certfile": str(signed.certificate), "ssl_keyfile": str(signed.key)}
        return table | more

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Grant USER rights on what is called so, or begins so if the name ends with a star."""
        bindings = [self._binding(AclBinding, kind, name, it) for it in operations]
        self._do(lambda admin: admin.create_acls(bindings))

    def revoke(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Take them back."""
        filters = [self._binding(AclBindingFilter, kind, name, it) for it in operations]
        for removed in self._do(lambda admin: admin.delete_acls(filters)):
            assert removed, f"{name}: there was no such right"

    def allow_worker(self, prefix: str) -> None:
        """All that a worker needs."""
        self.allow(TOPIC, f"{prefix}.*", READ, WRITE, DESCRIBE)
        self.allow(GROUP, f"{prefix}.worker", READ)
        self.allow(TRANSACTIONAL_ID, f"{prefix}.lane.*", WRITE, DESCRIBE)

    def set_scram_password(self, password: str) -> None:
        """Let USER in by SCRAM, with this password and no other."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(USER, info, password.encode())
        self._do(lambda admin: admin.alter_user_scram_credentials([change]))

    def _do(self, asked: Callable[[AdminClient], Mapping[Any, Any]]) -> list[Any]:
        """Ask the broker, and wait until it has done so."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        return [future.result(ADMIN_LIMIT_S) for future in asked(admin).values()]

    def _binding(self, kind: Any, of: ResourceType, name: str, operation: AclOperation) -> Any:
        pattern = (
            ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
        )
        plain = name.removesuffix("*")
        return kind(of, plain, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)


@contextmanager
def secured_broker(folder: Path, properties: Mapping[str, str] = {}) -> Iterator[Secured]:
    """Start one with a listener for each security protocol; the plain one may do everything."""
    authority = Authority(folder / "certificates", "authority")
    protocols = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
    ports = dict(zip(protocols, free_ports(len(protocols)), strict=True))
    broker = start_broker(
        folder / "kafka", properties={**_properties(authority), **properties}, listeners=ports
    )
    with broker:
        secured = Secured(broker, ports, authority)
        secured.set_scram_password(PASSWORD)
        yield secured


def _properties(authority: Authority) -> dict[str, str]:
    own = authority.signs("broker")
    login = "org.apache.kafka.common.security.{}LoginModule required"
    plain = f'{login.format("plain.Plain")} user_{USER}="{PASSWORD}";'
    scram = f"{login.format('scram.Scram')};"
    jaas = {
        f"listener.name.{name}.{mechanism}.sasl.jaas.config": text
        for name in ("sasl_plaintext", "sasl_ssl")
        for mechanism, text in (("plain", plain), ("scram-sha-512", scram))
    }
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.ssl.ssl.client.auth": "required",
        # A certificate's name is that of the user.
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
        **jaas,
    }
