"""`[console]`: the address of the operators' pages, and access to them."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from services.settings.section import JSON_IN_VARIABLE, FileName, Section, Text, Whole

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
SESSION_S_MAX = 12 * 3_600
OperatorName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@\-]{1,100}$")]
_ClaimValue = Annotated[str, Field(min_length=1, max_length=1_000)]
_ClaimValues = Annotated[tuple[_ClaimValue, ...], JSON_IN_VARIABLE, Field(max_length=1_000)]


def _address(url: str) -> str:
    """Raises ValueError for what no browser can open."""
    parts = urlsplit(url)
    if not parts.hostname or "%" in parts.hostname or parts.port == 0:
        raise ValueError("it has no host, or no port, that a browser can open")
    parts.hostname.encode("idna")
    return url


def worker_address(url: str) -> str:
    """Raises ValueError for what no worker can be asked at."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not {"?", "#"}.isdisjoint(url):
        raise ValueError("must be addresses such as http://10.0.0.7:8080")
    return url


def _network(value: Any) -> IPv4Network | IPv6Network:
    """Raises ValueError for what no connection comes from."""
    return ip_network(str(value))  # of a number, it would take the address with that number


_Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]
_WorkerUrl = Annotated[str, AfterValidator(worker_address)]
_PublicUrl = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+/?$"), AfterValidator(_address)]


class OidcSettings(Section):
    """`[console.oidc]`: people sign in at an issuer of OpenID Connect.

    `role_claim` names the claim of an ID token that has a person's roles, or a path with dots to
    it. A person with one of `operators` there is an operator, else with one of `approvers` may
    approve calls and answer questions, else with one of `viewers` is a viewer; `name_claim` has
    the name under which their actions are recorded.
    """

    issuer: Annotated[str, Field(pattern=r"^https?://[^?#]+$", max_length=1_000)]
    client_id: Annotated[Text, Field(max_length=1_000)]
    client_secret_env: str | None = None
    client_secret_file: FileName | None = None
    scopes: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[!#-\[\]-~]+$")], ...],
        JSON_IN_VARIABLE,
        Field(max_length=100),
    ] = ("openid", "profile", "email")
    name_claim: Text = "preferred_username"
    role_claim: Text = "groups"
    operators: _ClaimValues = ()
    approvers: _ClaimValues = ()
    viewers: _ClaimValues = ()
    clock_skew_s: Annotated[Whole, Field(ge=0, le=600)] = 60
    ca_file: FileName | None = None

    @model_validator(mode="after")
    def _can_let_in(self) -> Self:
        if not is_protected(self.issuer):
            raise ValueError("`issuer` must be an https address, or one of this machine")
        if self.client_secret_env and self.client_secret_file:
            raise ValueError("a secret lies in one place: leave `client_secret_env` or `_file` out")
        if not (self.operators or self.approvers or self.viewers):
            raise ValueError("no one could sign in: name values of the claim in `operators`")
        if "openid" not in self.scopes:
            raise ValueError("`scopes` must have openid")
        return self


def is_protected(url: str) -> bool:
    """Whether what is sent there cannot be read or changed on its way."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK))


class ConsoleSettings(Section):
    """`[console]`: where operators' pages are served, to whom, and whom they ask.

    `operators` says by name which variable holds the token of each who has one of their own,
    `approvers` the same of those who may only approve calls and answer questions;
    `public_url` is how a proxy in front is reached, `proxies` are the addresses of those whose
    `X-Forwarded-For` is believed; `workers` are addresses of workers' health.
    """

    host: Text = "127.0.0.1"
    port: Annotated[Whole, Field(ge=0, le=65_535)] = 8090
    operator_token_env: str | None = None
    operators: Annotated[dict[OperatorName, str], JSON_IN_VARIABLE, Field(max_length=1_000)] = {}
    approvers: Annotated[dict[OperatorName, str], JSON_IN_VARIABLE, Field(max_length=1_000)] = {}
    viewer_token_env: str | None = None
    oidc: OidcSettings | None = None
    session_s: Annotated[Whole, Field(ge=60, le=SESSION_S_MAX)] = SESSION_S_MAX
    public_url: _PublicUrl | None = None
    proxies: Annotated[tuple[_Network, ...], JSON_IN_VARIABLE, Field(max_length=100)] = ()
    ssl_certfile: FileName | None = None
    ssl_keyfile: FileName | None = None
    workers: Annotated[tuple[_WorkerUrl, ...], JSON_IN_VARIABLE, Field(max_length=1_000)] = ()

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if both := sorted(self.operators.keys() & self.approvers.keys()):
            raise ValueError(f"in `operators` and in `approvers`: {', '.join(both)}")
        return self

    @model_validator(mode="after")
    def _has_a_certificate_for_its_key(self) -> Self:
        if self.ssl_keyfile and not self.ssl_certfile:
            raise ValueError("`ssl_keyfile` needs `ssl_certfile` beside it")
        return self
