"""Makes the issuer from the settings, once for a console. Raises SetUpError."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from services.console.access.person import RoleRule
from services.console.access.tokens import Role
from services.console.oidc.fetching import EXCHANGE_S_MAX
from services.console.oidc.issuer import Issuer
from services.settings.console import ConsoleSettings, OidcSettings
from services.settings.secrets import secret_file
from services.settings.settings import SetUpError, secret

CONNECTIONS_MAX = 10  # to the issuer, over all sign-ins: more wait for their turn


@asynccontextmanager
async def issuer_of(chosen: ConsoleSettings) -> AsyncIterator[Issuer | None]:
    """None where people log in by tokens alone."""
    if chosen.oidc is None:
        yield None
        return
    client_secret, trust = _secret_of(chosen.oidc), _trust_of(chosen.oidc)
    connector = TCPConnector(limit=CONNECTIONS_MAX, ssl=trust or True)
    timeout = ClientTimeout(total=EXCHANGE_S_MAX)
    async with ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False
    ) as session:
        yield Issuer(chosen.oidc, _rule_of(chosen, chosen.oidc), client_secret, session)


def _rule_of(chosen: ConsoleSettings, oidc: OidcSettings) -> RoleRule:
    return RoleRule(
        name_claim=oidc.name_claim,
        role_claim=oidc.role_claim,
        operators=frozenset(oidc.operators),
        viewers=frozenset(oidc.viewers),
        approvers=frozenset(oidc.approvers),
        taken=frozenset({*chosen.operators, *chosen.approvers, *(role.value for role in Role)}),
    )


def _secret_of(oidc: OidcSettings) -> Callable[[], str | None]:
    if oidc.client_secret_file:
        file = secret_file(oidc.client_secret_file, "console.oidc.client_secret_file")
        return lambda: file.value
    value = secret(oidc.client_secret_env)
    if oidc.client_secret_env and value is None:
        raise SetUpError(
            f"The variable {oidc.client_secret_env} is to hold the client's secret of the issuer: "
            "set it, or leave `console.oidc.client_secret_env` out for a public client."
        )
    return lambda: value


def _trust_of(oidc: OidcSettings) -> ssl.SSLContext | None:
    if oidc.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=oidc.ca_file)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or type(error).__name__
        raise SetUpError(
            f"`console.oidc.ca_file` ({oidc.ca_file}) cannot be used ({reason}): name a PEM file "
            "that can be read."
        ) from None
