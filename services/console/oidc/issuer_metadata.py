"""The used part of an issuer's metadata (OpenID Connect Discovery)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.console.access.person import SignInRefused
from services.console.oidc.fetching import refused
from services.settings.console import is_protected

PATH = "/.well-known/openid-configuration"
URL_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """Its addresses. `logout` may be missing; `takes_basic`: a secret may stand in a header."""

    authorization: str
    token: str
    keys: str
    logout: str | None
    takes_basic: bool
    names_itself: bool


def metadata_of(found: Mapping[str, Any], issuer: str) -> IssuerMetadata | SignInRefused:
    """What stands in a document of discovery, if it is that issuer's."""
    named = found.get("issuer")
    if named != issuer:
        is_near = isinstance(named, str) and named.rstrip("/") == issuer.rstrip("/")
        hint = " (they differ in the last /)" if is_near else ""
        return refused(f"has another name than `console.oidc.issuer`{hint}")
    urls = {
        name: found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
    }
    for name, url in urls.items():
        if not _is_usable(url):
            return refused(f"gives no https address as `{name}`")
    logout = found.get("end_session_endpoint")
    methods = found.get("token_endpoint_auth_methods_supported")
    return IssuerMetadata(
        authorization=str(urls["authorization_endpoint"]),
        token=str(urls["token_endpoint"]),
        keys=str(urls["jwks_uri"]),
        logout=logout if isinstance(logout, str) and _is_usable(logout) else None,
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        names_itself=found.get("authorization_response_iss_parameter_supported") is True,
    )


def _is_usable(url: object) -> bool:
    return (
        isinstance(url, str)
        and len(url) <= URL_CHARS_MAX
        and url.isascii()
        and url.isprintable()
        and "#" not in url
        and is_protected(url)
    )
