"""Client options for Kafka, derived from the settings once, for every service."""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiokafka.conn import collect_hosts

from answerbus.client.diagnosis import OptionNames
from answerbus.topics import Topic
from services.settings import KafkaSettings, SetUpError, secret

if TYPE_CHECKING:
    from faststream.security import BaseSecurity

READ_COMMITTED = "read_committed"
OPTION_NAMES = OptionNames(
    servers="`kafka.bootstrap_servers`",
    protocol="`kafka.security_protocol`",
    mechanism="`kafka.sasl_mechanism`",
    user="`kafka.sasl_plain_username`",
    password="the password in the variable that `kafka.sasl_plain_password_env` names",  # noqa: S106 - no password
    authority="`kafka.ssl_cafile`",
    certificate="`kafka.ssl_certfile` and `kafka.ssl_keyfile`",
)


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """What every aiokafka client takes: servers and security. Raises SetUpError."""
    try:
        collect_hosts(settings.bootstrap_servers)
    except ValueError:
        raise SetUpError(
            "Setting `kafka.bootstrap_servers` must be HOST:PORT, or several with commas between "
            "them, such as kafka-1:9092,kafka-2:9092."
        ) from None
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "security_protocol": settings.security_protocol,
    }
    if settings.security_protocol.startswith("SASL"):
        options |= _sasl(settings)
    if settings.security_protocol.endswith("SSL"):
        options["ssl_context"] = _tls(settings)
    return options


def faststream_security(settings: KafkaSettings) -> "BaseSecurity | None":
    """The same, as FastStream wants to be told."""
    from faststream.security import (  # noqa: PLC0415 - the worker alone has it loaded
        BaseSecurity,
        SASLPlaintext,
        SASLScram256,
        SASLScram512,
    )

    options = client_options(settings)
    context = options.get("ssl_context")
    use_ssl = context is not None
    if "sasl_mechanism" not in options:
        return BaseSecurity(ssl_context=context, use_ssl=use_ssl) if use_ssl else None
    mechanism = {
        "PLAIN": SASLPlaintext,
        "SCRAM-SHA-256": SASLScram256,
        "SCRAM-SHA-512": SASLScram512,
    }[options["sasl_mechanism"]]
    return mechanism(
        options["sasl_plain_username"],
        options["sasl_plain_password"],
        ssl_context=context,
        use_ssl=use_ssl,
    )


def topic_name(settings: KafkaSettings, topic: Topic) -> str:
    """A topic's name on this broker."""
    return topic.full_name(settings.topic_prefix)


def _sasl(settings: KafkaSettings) -> Mapping[str, Any]:
    password = secret(settings.sasl_plain_password_env)
    if settings.sasl_plain_username is None or password is None:
        raise SetUpError(
            "SASL needs `kafka.sasl_plain_username`, and `kafka.sasl_plain_password_env` naming "
            "a variable that holds the password."
        )
    return {
        "sasl_mechanism": settings.sasl_mechanism,
        "sasl_plain_username": settings.sasl_plain_username,
        "sasl_plain_password": password,
    }


def _tls(settings: KafkaSettings) -> ssl.SSLContext:
    authority, certificate, key = settings.ssl_cafile, settings.ssl_certfile, settings.ssl_keyfile
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(f"`kafka.ssl_cafile` ({authority})", error, "a PEM file") from None
    if certificate is None:
        if key is not None:
            raise SetUpError("`kafka.ssl_keyfile` needs `kafka.ssl_certfile` beside it.")
        return context
    phrase = _PassPhrase(settings)
    try:
        context.load_cert_chain(certificate, key, password=phrase)
    except (OSError, ssl.SSLError) as error:
        raise _of_own_certificate(settings, error, was_locked=phrase.was_asked) from None
    return context


class _PassPhrase:
    """Asked for only if the key is encrypted; without one the terminal would be asked."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._key = settings.ssl_keyfile or settings.ssl_certfile
        self._password = secret(settings.ssl_password_env)
        self.was_asked = False

    def __call__(self) -> str:
        self.was_asked = True
        if self._password:
            return self._password
        raise SetUpError(
            f"The key {self._key} is encrypted: put its pass phrase into a variable, and name "
            "that in `kafka.ssl_password_env`."
        )


def _of_own_certificate(settings: KafkaSettings, error: OSError, *, was_locked: bool) -> SetUpError:
    files = f"{settings.ssl_certfile}, {settings.ssl_keyfile}"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return SetUpError(
            f"The key does not belong to the certificate ({files}): correct `kafka.ssl_certfile` "
            "or `kafka.ssl_keyfile`."
        )
    if was_locked:
        return SetUpError(
            f"The pass phrase does not open the key ({files}): correct the variable that "
            "`kafka.ssl_password_env` names."
        )
    return _unusable(f"`kafka.ssl_certfile` or `kafka.ssl_keyfile` ({files})", error, "PEM files")


def _unusable(which: str, error: OSError, wanted: str) -> SetUpError:
    said = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return SetUpError(f"{which} cannot be used ({said}): name {wanted} that can be read.")
