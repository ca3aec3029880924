"""A broker that lets in only those it knows, by password or certificate, and only as far as told.

Its plain listener is that of an administrator, for the tests themselves.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.kafka import Broker, start_broker
from infra.ports import LOOPBACK, free_ports
from tests.integration.certificates import Authority
from tests.integration.rights import PASSWORD, PASSWORD_ENV, USER, Rights


@dataclass(frozen=True)
class Secured(Rights):
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
            table["sasl_plain_password_env"] = PASSWORD_ENV
        if protocol.endswith("SSL"):
            table["ssl_cafile"] = str(self.authority.file)
        if protocol == "SSL":
            signed = self.authority.signs(USER)
            table |= {"ssl_certfile": str(signed.certificate), "ssl_keyfile": str(signed.key)}
        return table | more


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


def sasl_properties() -> dict[str, str]:
    """Who comes in by password has the rights that it was given; who comes in plain has all."""
    login = "org.apache.kafka.common.security.{}LoginModule required"
    plain = f'{login.format("plain.Plain")} user_{USER}="{PASSWORD}";'
    scram = f"{login.format('scram.Scram')};"
    # Tokens that nobody signed: who they name is believed.
    oauth = f'{login.format("oauthbearer.OAuthBearer")} unsecuredLoginStringClaim_sub="{USER}";'
    logins = {
        "sasl_plaintext": {"PLAIN": plain, "SCRAM-SHA-512": scram},
        "sasl_ssl": {
            "PLAIN": plain,
            "SCRAM-SHA-256": scram,
            "SCRAM-SHA-512": scram,
            "OAUTHBEARER": oauth,
        },
    }
    jaas = {
        f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": text
        for name, texts in logins.items()
        for mechanism, text in texts.items()
    }
    enabled = {
        f"listener.name.{name}.sasl.enabled.mechanisms": ",".join(texts)
        for name, texts in logins.items()
    }
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        **enabled,
        **jaas,
    }


def _properties(validator: Authority) -> dict[str, str]:
    own = validator.signs("broker")
    return {
        **sasl_properties(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(validator.file),
        "listener.name.ssl.ssl.client.auth": "required",
        # A certificate's name is that of the user.
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
    }
