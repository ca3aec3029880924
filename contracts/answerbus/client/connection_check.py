"""The way into a broker, walked step by step to find out where it ends, and why.

Kafka's client says of all of these only that it could not connect.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from answerbus.client.diagnosis import Diagnosis, OptionNames

STEP_TIMEOUT_S = 3.0
_OPTIONS = (
    *("security_protocol", "ssl_context", "sasl_mechanism", "sasl_plain_username"),
    *("sasl_plain_password", "sasl_kerberos_service_name", "sasl_kerberos_domain_name"),
    "sasl_oauth_token_provider",
)
TOKENS = "OAUTHBEARER"
_NO_SASL_HERE = IllegalSaslStateError.errno
_WRONG_HOST = {62, 64}  # OpenSSL's codes: the certificate names another host, another address
_OUT_OF_DATE = {9, 10}
_NOT_RFC_5280 = range(80, 95)  # what is asked for by X509_V_FLAG_X509_STRICT alone
_FAILURES = (OSError, EOFError, KafkaError, ValueError)  # of a step; TimeoutError is an OSError


async def diagnosis_at(
    servers: str | Sequence[str], options: Mapping[str, Any], names: OptionNames
) -> Diagnosis | None:
    """Why none of the servers lets us in, or sends us to a broker that takes connections.

    None if none answers, or one does so.
    """
    found = None
    for host, port, _ in collect_hosts(servers, randomize=False):
        try:
            async with _connection(host, port, options) as connection:
                metadata = await connection.send(MetadataRequest([]))
                # What aiokafka takes for an answer is a refusal where no broker is in it.
                if not metadata.brokers and options.get("sasl_mechanism") == TOKENS:
                    raise SaslAuthenticationFailed
        except _FAILURES as error:
            found = found or await _Step(host, port, options, names).refusal(error)
        else:
            return await _unreachable_brokers(f"{host}:{port}", metadata.brokers)
    return found


async def _unreachable_brokers(server: str, brokers: Sequence[Sequence[Any]]) -> Diagnosis | None:
    """The diagnosis if no broker takes connections where the brokers say that they are."""
    addresses = sorted({(host, port) for _node, host, port, *_rack in brokers})
    reached = await asyncio.gather(*(takes_connections(*address) for address in addresses))
    if any(reached) or not addresses:
        return None
    named = ", ".join(f"{host}:{port}" for host, port in addresses)
    return Diagnosis(
        f"{server} answers and names the brokers' addresses, and none can be reached ({named})",
        "correct advertised.listeners of the brokers, or see why this machine cannot reach them",
    )


async def takes_connections(host: str, port: int) -> bool:
    """Whether a server listens there."""
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # TimeoutError is one, and so is a name that is not known
        return False
    writer.close()
    return True


async def is_silent(host: str, port: int, options: Mapping[str, Any]) -> bool:
    """Whether a server takes a connection and then answers nothing; a refusal is an answer."""
    try:
        async with _connection(host, port, options):
            return False
    except TimeoutError:
        return True
    except _FAILURES:
        return False


@asynccontextmanager
async def _connection(
    host: str, port: int, options: Mapping[str, Any]
) -> AsyncIterator[AIOKafkaConnection]:
    """Connected as Kafka's clients are, through TLS and SASL."""
    chosen = {name: options[name] for name in _OPTIONS if name in options}
    connection = await create_conn(
        host, port, request_timeout_ms=int(STEP_TIMEOUT_S * 1000), **chosen
    )
    try:
        yield connection
    finally:
        closed = connection.close()
        if closed is not None:
            await asyncio.wait([closed], timeout=STEP_TIMEOUT_S)


class _Step:
    """The meaning of an error while connecting to one server."""

    def __init__(
        self, host: str, port: int, options: Mapping[str, Any], names: OptionNames
    ) -> None:
        self._host, self._port = host, port
        self._options, self._names = options, names
        self._protocol: str = options.get("security_protocol", "PLAINTEXT")

    async def refusal(self, error: BaseException) -> Diagnosis | None:
        tls = next((it for it in _chain(error) if isinstance(it, ssl.SSLError)), None)
        if isinstance(tls, ssl.SSLCertVerificationError):
            return self._untrusted(tls)
        match error:
            case socket.gaierror():
                return Diagnosis(
                    f"the name {self._host} is not known here",
                    f"correct it in {self._names.servers}",
                )
            case ConnectionRefusedError() | TimeoutError():
                return None  # a Kafka that means another protocol closes the connection at once
            case (
                AuthenticationFailedError()
                | SaslAuthenticationFailed()
                | IllegalSaslStateError()
                | UnsupportedSaslMechanismError()
            ):
                return await self._unauthenticated(error)
            case _:
                return await self._wrong_protocol() or self._rejected_by_broker(tls)

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> Diagnosis:
        if error.verify_code in _WRONG_HOST:
            return Diagnosis(
                f"the broker's certificate is not for {self._host}",
                f"name it in {self._names.servers} as its certificate does",
            )
        if error.verify_code in _OUT_OF_DATE:
            return Diagnosis(
                "the broker's certificate, or that of the authority that signed it, is not valid "
                f"today ({error.verify_message})",
                "renew the one that has expired (that of an authority also in "
                f"{self._names.authority}), or correct the clock of this machine",
            )
        if error.verify_code in _NOT_RFC_5280:
            return Diagnosis(
                "the broker's certificate, or that of the authority that signed it, lacks what "
                f"RFC 5280 asks for ({error.verify_message})",
                "issue it again with that: Python 3.13 and newer refuse it",
            )
        return Diagnosis(
            "the broker's certificate is signed by an authority that is not trusted here "
            f"({error.verify_message})",
            f"put the authority that signed it into {self._names.authority}",
        )

    async def _unauthenticated(self, error: BaseException) -> Diagnosis:
        if isinstance(error, IllegalSaslStateError):
            return self._without_sasl()
        mechanisms = await self._mechanisms(self._protocol.removeprefix("SASL_"))
        names, asked = self._names, self._options.get("sasl_mechanism")
        if mechanisms and asked not in mechanisms:
            return Diagnosis(
                f"the broker does not know the SASL mechanism {asked}",
                f"set {names.mechanism} to {' or '.join(sorted(mechanisms))}",
            )
        if asked == TOKENS:
            return Diagnosis(
                f"the broker refuses the token ({type(error).__name__})",
                f"see that {names.token} gives one that is valid now, for this broker",
            )
        user = self._options.get("sasl_plain_username")
        return Diagnosis(
            f"the broker refuses the user {user} or its password ({type(error).__name__})",
            f"correct {names.user} or {names.password}",
        )

    async def _wrong_protocol(self) -> Diagnosis | None:
        """Whether the listener speaks another protocol than we do."""
        with_tls, with_sasl = self._protocol.endswith("SSL"), self._protocol.startswith("SASL")
        if not with_tls and await self._speaks_tls():
            cause = "the broker speaks TLS there, and we do not"
            return Diagnosis(cause, f"set {self._names.protocol} to SSL or SASL_SSL")
        layer = "SSL" if with_tls else "PLAINTEXT"
        if with_tls and await self._answers("PLAINTEXT"):
            cause = "the broker speaks no TLS there, and we do"
            return Diagnosis(cause, f"set {self._names.protocol} to PLAINTEXT or SASL_PLAINTEXT")
        if not await self._answers(layer):
            return None
        wants_sasl = await self._mechanisms(layer) is not None
        if wants_sasl and not with_sasl:
            cause = "the broker wants a user name and a password there (SASL)"
            return Diagnosis(cause, f"set {self._names.protocol} to SASL_{layer}")
        return self._without_sasl() if with_sasl and not wants_sasl else None

    def _without_sasl(self) -> Diagnosis:
        return Diagnosis(
            "the broker wants no user name and password there, and we offer them",
            f"set {self._names.protocol} to {self._protocol.removeprefix('SASL_')}",
        )

    def _rejected_by_broker(self, error: ssl.SSLError | None) -> Diagnosis | None:
        """The broker's complaint about us: a TLS alert, or a closed connection."""
        reason = (error.reason or "") if error else ""
        if self._protocol != "SSL" or "ALERT" not in reason:
            return None if error is None else self._tls_failed(reason or str(error))
        if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
            cause = "the broker wants a certificate of the client, and has been shown none"
        elif "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
            cause = f"the broker does not accept the certificate of the client ({reason})"
        else:
            return self._tls_failed(reason)
        return Diagnosis(cause, f"set {self._names.certificate} to those that the broker accepts")

    def _tls_failed(self, reason: str) -> Diagnosis:
        return Diagnosis(
            f"TLS with the broker fails ({reason})",
            f"compare {self._names.protocol} and the TLS versions of both sides",
        )

    async def _speaks_tls(self) -> bool:
        """Whether TLS is answered by TLS, by any server."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                _, writer = await asyncio.open_connection(self._host, self._port, ssl=context)
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "")
        except (OSError, EOFError):
            return False
        writer.close()
        return True

    async def _answers(self, layer: str) -> bool:
        """Whether Kafka's first question is answered."""
        try:
            async with self._bare(layer):
                return True
        except _FAILURES:
            return False

    async def _mechanisms(self, layer: str) -> frozenset[str] | None:
        """The SASL mechanisms of the listener; None if it wants no SASL, or does not say."""
        try:
            async with self._bare(layer) as connection:
                answer = await connection.send(SaslHandShakeRequest("none"))
        except _FAILURES:
            return None
        if answer.error_code == _NO_SASL_HERE:
            return None
        return frozenset(answer.enabled_mechanisms)

    def _bare(self, layer: str) -> Any:
        options = {**self._options, "security_protocol": layer}
        return _connection(self._host, self._port, options)


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error and what it comes from."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
