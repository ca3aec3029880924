"""Keys that sign for AWS, by the default chain of botocore.

That is: variables, profiles of the AWS CLI, a role for a web identity (IRSA), the roles of a
container, of a pod and of an instance.
"""

# The SDK takes time to load, and only those who use it have it.
# ruff: noqa: PLC0415

from services.worker.adapters.providers.apis.connection import AwsKeys
from services.worker.adapters.providers.credentials.credential import Token
from services.worker.tasks.own_thread import OwnThread

LOOKED_AT_EVERY_S = 600.0  # a new session looks where the chain leads to now


class NoCredentials(Exception):
    """The chain leads to no keys."""


def _keys(_audience: str | None) -> Token:
    """The keys that the chain leads to now."""
    import botocore.session

    found = botocore.session.Session().get_credentials()
    if found is None:
        raise NoCredentials
    keys = found.get_frozen_credentials()
    return Token(AwsKeys(keys.access_key, keys.secret_key, keys.token), LOOKED_AT_EVERY_S)


token = OwnThread(_keys)
