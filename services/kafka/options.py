"""Client options for Kafka, derived from the settings once, for every service."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from answerbus.client.bootstrap import check_addresses
from answerbus.client.diagnosis import OptionNames
from answerbus.topics import Topic
from services.kafka.tls import ChangingTls
from services.settings.secret_file import SecretFile
from services.settings.secrets import secret_file
from services.settings.settings import KafkaSettings, SetUpError, secret

TRANSACTION_TIMEOUT_MS = 15_000  # of a killed process: so long do readers of its partitions wait
_PASSWORD_FILE = "`kafka.sasl_plain_password_file`"  # noqa: S105 - the name of the setting
_PASSWORD = "sasl_plain_password"  # noqa: S105 - the name of the option
OPTION_NAMES = OptionNames(
    servers="`kafka.bootstrap_servers`",
    protocol="`kafka.security_protocol`",
    mechanism="`kafka.sasl_mechanism`",
    user="`kafka.sasl_plain_username`",
    password="the password in the variable that `kafka.sasl_plain_password_env` names",  # noqa: S106 - no password
    token="`kafka.sasl_token_file` (`_env`, `_plugin`)",  # noqa: S106 - no token
    authority="`kafka.ssl_cafile`",
    certificate="`kafka.ssl_certfile` and `kafka.ssl_keyfile`",
)
ENTRY_POINTS = "answerbus.kafka_tokens"
_SOURCES = "`kafka.sasl_token_file`, `kafka.sasl_token_env` or `kafka.sasl_token_plugin`"

Source = Callable[[], Any]
"""Gives a token, or an awaitable of one; asked at each connection, beside the event loop."""


def option_names(settings: KafkaSettings) -> OptionNames:
    """The names of a connection's options in these settings."""
    if settings.sasl_plain_password_file is None:
        return OPTION_NAMES
    return replace(OPTION_NAMES, password="the password in the file of " + _PASSWORD_FILE)


class ConnectionOptions(Mapping[str, Any]):
    """Options of aiokafka's clients; each client that is made gets secrets as they are then."""

    def __init__(self, fixed: Mapping[str, Any], password: SecretFile | None) -> None:
        self._fixed, self._password = fixed, password

    def __getitem__(self, name: str) -> Any:
        """An option; the password is read again from its file."""
        if name == _PASSWORD and self._password is not None:
            return self._password.value
        return self._fixed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fixed)

    def __len__(self) -> int:
        return len(self._fixed)

    def at(self, bootstrap_servers: str) -> "ConnectionOptions":
        """The same, with the servers among them."""
        return ConnectionOptions(
            {"bootstrap_servers": bootstrap_servers, **self._fixed}, self._password
        )


def connection_options(settings: KafkaSettings) -> ConnectionOptions:
    """The security options of every aiokafka client. Raises SetUpError."""
    options: dict[str, Any] = {"security_protocol": settings.security_protocol}
    password = None
    if settings.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = settings.sasl_mechanism
        if settings.sasl_mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = token_source(settings)
        else:
            password = _password_file(settings)
            options |= _user_and_password(settings, password)
    if settings.security_protocol.endswith("SSL"):
        options["ssl_context"] = ChangingTls(settings)
    return ConnectionOptions(options, password)


def servers(settings: KafkaSettings) -> str:
    """Where the brokers are, as every aiokafka client takes it. Raises SetUpError."""
    try:
        check_addresses(settings.bootstrap_servers)
    except ValueError:
        raise SetUpError(
            "Setting `kafka.bootstrap_servers` must be HOST:PORT, or several with commas between "
            "them, such as kafka-1:9092,kafka-2:9092."
        ) from None
    return settings.bootstrap_servers


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """Both, as they are now, for a client of the moment. Raises SetUpError."""
    return {"bootstrap_servers": servers(settings), **connection_options(settings)}


def topic_name(settings: KafkaSettings, topic: Topic) -> str:
    """A topic's name on this broker."""
    return topic.full_name(settings.topic_prefix)


def _password_file(settings: KafkaSettings) -> SecretFile | None:
    path = settings.sasl_plain_password_file
    return secret_file(path, "kafka.sasl_plain_password_file") if path else None


def _user_and_password(settings: KafkaSettings, file: SecretFile | None) -> Mapping[str, Any]:
    password = file.value if file else secret(settings.sasl_plain_password_env)
    if settings.sasl_plain_username is None or password is None:
        raise SetUpError(
            "SASL needs `kafka.sasl_plain_username`, and `kafka.sasl_plain_password_env` naming "
            "a variable that holds the password, or `kafka.sasl_plain_password_file` a file."
        )
    return {"sasl_plain_username": settings.sasl_plain_username, _PASSWORD: password}


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka ships no types
    """What aiokafka asks for a token at each connection that it makes."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def token(self) -> str:
        """A token that is valid now."""
        found = await asyncio.to_thread(self._source)
        text: str = await found if inspect.isawaitable(found) else found
        return text


def token_source(settings: KafkaSettings) -> TokenSource:
    """The one that the settings name. Raises SetUpError."""
    named = (settings.sasl_token_file, settings.sasl_token_env, settings.sasl_token_plugin)
    if sum(name is not None for name in named) != 1:
        raise SetUpError(f"SASL OAUTHBEARER needs one of {_SOURCES}.")
    if settings.sasl_token_file:
        return TokenSource(_of_file(secret_file(settings.sasl_token_file, "kafka.sasl_token_file")))
    if settings.sasl_token_plugin:
        return TokenSource(_of_plugin(settings.sasl_token_plugin))
    return TokenSource(_of_variable(settings.sasl_token_env))


def _of_file(file: SecretFile) -> Source:
    return lambda: file.value


def _of_variable(variable: str | None) -> Source:
    value = secret(variable)
    if value is None:
        raise SetUpError(
            f"The variable {variable} is not set: put the token there, or name another variable in "
            "`kafka.sasl_token_env`."
        )
    return lambda: value


def _of_plugin(name: str) -> Source:
    """A function without arguments, which some installed package offers under that name."""
    found = sorted(entry_points(group=ENTRY_POINTS), key=lambda it: it.name)
    chosen = [it for it in found if it.name == name]
    if not chosen:
        known = ", ".join(it.name for it in found) or "none"
        raise SetUpError(
            f"No installed package offers the entry point {name} in the group {ENTRY_POINTS} "
            f"(there are: {known}): install it, or correct `kafka.sasl_token_plugin`."
        )
    try:
        loaded: Source = chosen[0].load()
    except Exception as error:
        raise SetUpError(
            f"The entry point {name} of the group {ENTRY_POINTS} cannot be loaded "
            f"({type(error).__name__}: {error}): install its package again."
        ) from None
    return loaded
