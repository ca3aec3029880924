"""An issuer of OpenID Connect: its sign-in address, and the person behind a code."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from aiohttp import ClientSession

from services.console.access.person import Person, RoleRule, SignInRefused
from services.console.access.sign_in import SignIn
from services.console.oidc.fetching import json_of, refused
from services.console.oidc.id_token import KEYS_MAX, ExpectedToken, claims_of, is_usable
from services.settings.console import OidcSettings, is_protected

METADATA_S = 300.0  # for how long its addresses are remembered; its keys are not
FAILED_S = 5.0  # for how long it is not asked again after it gave none
PATH = "/.well-known/openid-configuration"
URL_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """Its addresses. `logout` may be missing; `takes_basic`: a secret may be in a header."""

    authorization: str
    token: str
    keys: str
    logout: str | None
    takes_basic: bool
    names_itself: bool


def metadata_of(found: Mapping[str, Any], issuer: str) -> IssuerMetadata | SignInRefused:
    """The content of a discovery document, if it is that issuer's."""
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


class Issuer:
    """`secret` gives the client's secret as it is now; None is a public client."""

    def __init__(
        self,
        settings: OidcSettings,
        rule: RoleRule,
        secret: Callable[[], str | None],
        session: ClientSession,
    ) -> None:
        self._settings, self._rule, self._secret = settings, rule, secret
        self._session = session
        self._known: IssuerMetadata | SignInRefused | None = None
        self._known_until_s = 0.0
        self._asking = asyncio.Lock()

    @property
    def host(self) -> str:
        return urlsplit(self._settings.issuer).netloc

    async def sign_in_address(self, sign_in: SignIn, back: str) -> str | SignInRefused:
        """Where a browser is to go; it comes back to the address `back` of ours."""
        known = await self._metadata()
        if isinstance(known, SignInRefused):
            return known
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": back,
            "scope": " ".join(self._settings.scopes),
            "state": sign_in.state,
            "nonce": sign_in.nonce,
            "code_challenge": sign_in.challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(known.authorization, query)

    async def logout_address(self, back: str) -> str | SignInRefused:
        """Where a browser ends its session at the issuer, if the issuer has such a place."""
        known = await self._metadata()
        if isinstance(known, SignInRefused):
            return known
        if known.logout is None:
            return SignInRefused("The issuer has no address to log out at: do it on its own pages.")
        query = {"client_id": self._settings.client_id, "post_logout_redirect_uri": back}
        return _with_query(known.logout, query)

    async def person(
        self, sign_in: SignIn, code: str, named: str | None, back: str
    ) -> Person | SignInRefused:
        """Whom the code stands for that a browser brought back; `named` is who gave it, if said."""
        known = await self._metadata()
        if isinstance(known, SignInRefused):
            return known
        if named != self._settings.issuer and (named is not None or known.names_itself):
            return SignInRefused("The answer is of another issuer than the one that was asked.")
        token = await self._token(known, sign_in, code, back)
        if isinstance(token, SignInRefused):
            return token
        keys = await self._keys(known)
        if isinstance(keys, SignInRefused):
            return keys
        chosen = self._settings
        expected = ExpectedToken(
            chosen.issuer, chosen.client_id, sign_in.nonce, chosen.clock_skew_s
        )
        claims = claims_of(token, keys, expected)
        return claims if isinstance(claims, SignInRefused) else self._rule.person(claims)

    async def _metadata(self) -> IssuerMetadata | SignInRefused:
        async with self._asking:  # many who sign in at once ask once
            now_s = asyncio.get_running_loop().time()
            if self._known is not None and now_s < self._known_until_s:
                return self._known
            issuer = self._settings.issuer
            found = await json_of(self._session, issuer.rstrip("/") + PATH)
            known = found if isinstance(found, SignInRefused) else metadata_of(found, issuer)
            for_s = METADATA_S if isinstance(known, IssuerMetadata) else FAILED_S
            self._known = known
            self._known_until_s = asyncio.get_running_loop().time() + for_s
            return known

    async def _token(
        self, known: IssuerMetadata, sign_in: SignIn, code: str, back: str
    ) -> str | SignInRefused:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": sign_in.verifier,
            "client_id": self._settings.client_id,
        }
        secret, headers = self._secret(), {}
        if secret is not None and known.takes_basic:
            pair = f"{quote_plus(self._settings.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            del form["client_id"]
        elif secret is not None:
            form["client_secret"] = secret
        found = await json_of(self._session, known.token, form, headers)
        if isinstance(found, SignInRefused):
            return found
        token = found.get("id_token")
        return token if isinstance(token, str) else refused("sent no ID token")

    async def _keys(self, known: IssuerMetadata) -> Sequence[Mapping[str, Any]] | SignInRefused:
        """As they are now: what it has withdrawn opens nothing, what is new is known at once."""
        found = await json_of(self._session, known.keys)
        if isinstance(found, SignInRefused):
            return found
        keys = found.get("keys")
        if not isinstance(keys, list):
            return refused("publishes no keys")
        usable = [key for key in keys[:KEYS_MAX] if is_usable(key)]
        return usable or refused("publishes no public key that can be used")


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
