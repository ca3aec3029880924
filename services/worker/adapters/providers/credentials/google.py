"""Tokens of Google Cloud, by Application Default Credentials.

That is: the file that GOOGLE_APPLICATION_CREDENTIALS names (a service account, or a federated
workload identity), the login of gcloud, the metadata server.
"""

# The SDK takes time to load, and only those who use it have it.
# ruff: noqa: PLC0415

from datetime import UTC

from services.worker.adapters.clock import SystemClock
from services.worker.adapters.providers.credentials.credential import Token
from services.worker.tasks.own_thread import OwnThread


def _token(audience: str | None) -> Token:
    """A token for the scope `audience`."""
    import google.auth
    from google.auth.credentials import with_scopes_if_required
    from google.auth.transport.requests import Request

    # With scopes, a federated identity would ask the Resource Manager for its project each time.
    found, _ = google.auth.default()
    credentials = with_scopes_if_required(found, [audience or ""])  # type: ignore[no-untyped-call]
    credentials.refresh(Request())
    ends_at = credentials.expiry.replace(tzinfo=UTC) if credentials.expiry else None
    lasts_s = (ends_at - SystemClock().now()).total_seconds() if ends_at else None
    return Token(str(credentials.token), lasts_s)


token = OwnThread(_token)
