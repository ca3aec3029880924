"""Tokens of Microsoft Entra ID, by the default chain of azure-identity.

That is: a service principal of variables, workload identity, managed identity, the Azure CLI.
"""

# The SDK takes a second to load, and only those who use it have it.
# ruff: noqa: PLC0415

from services.worker.adapters.clock import SystemClock
from services.worker.adapters.providers.credentials.credential import Token
from services.worker.tasks.own_thread import OwnThread


def _token(audience: str | None) -> Token:
    """A token for the scope `audience`."""
    from azure.identity import DefaultAzureCredential

    with DefaultAzureCredential() as credential:
        found = credential.get_token(audience or "")
    return Token(found.token, found.expires_on - SystemClock().now().timestamp())


token = OwnThread(_token)
