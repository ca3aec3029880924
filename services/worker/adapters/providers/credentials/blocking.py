"""Tokens of a maker's library, which blocks: where an issuer does not answer, for minutes."""

from services.worker.adapters.providers.credentials.credential import Token
from services.worker.tasks.own_thread import OwnThread


class BlockingCredential(OwnThread[str | None, Token]):
    """See Credential and OwnThread."""
