"""Client options for Kafka, derived from the settings once, for every service."""

import ssl
from collections.abc import Mapping
from typing import Any

from aiokafka.conn import collect_hosts
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512

from answerbus.topics import Topic
from services.settings import KafkaSettings, SetUpError, secret

READ_COMMITTED = "read_committed"


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


def faststream_security(settings: KafkaSettings) -> BaseSecurity | None:
    """The same, as FastStream wants to be told."""
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
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        if settings.ssl_certfile:
            context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile)
    except (OSError, ssl.SSLError) as error:
        raise SetUpError(f"The TLS files under `kafka.ssl_*` cannot be used: {error}") from None
    return context
