"""Tokens for SASL OAUTHBEARER: from a variable, a file, or an entry point."""

import asyncio
import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from services.settings.secret_file import SecretFile
from services.settings.secrets import secret_file
from services.settings.settings import KafkaSettings, SetUpError, secret

ENTRY_POINTS = "answerbus.kafka_tokens"
_SOURCES = "`kafka.sasl_token_file`, `kafka.sasl_token_env` or `kafka.sasl_token_plugin`"

Source = Callable[[], Any]
"""Gives a token, or an awaitable of one; asked at each connection, beside the event loop."""


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
            f"({type(error).__name__}: {error}): install its package anew."
        ) from None
    return loaded
