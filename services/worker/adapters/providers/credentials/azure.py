"""Tokens of Microsoft Entra ID, by the default chain of azure-identity.

That is: a service principal of variables, workload identity, managed identity, the Azure CLI.
"""

# The SDK takes a second to load, and only those who use it have it.
# ruff: noqa: PLC0415

import asyncio

from services.worker.adapters.clock import SystemClock
from services.worker.adapters.providers.credentials.credential import Token


async def token(audience: str | None) -> Token:
    """A token for the scope `audience`."""
    return await asyncio.to_thread(_token, audience or "")


def _token(scope: str) -> Token:
    from azure.identity import DefaultAzureCredential

    with DefaultAzureCredential() as credential:
        found = credential.get_token(scope)
    return Token(found.token, found.expires_on - SystemClock().now().timestamp())
