"""The connection settings of providers over HTTP: the server, and the limits of an exchange."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Keys that sign requests to AWS; `session_token` where they are those of a role."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """One profile at one server; `base_url` None is the maker's own.

    `check_model` is False for servers that list other names than they serve. `native` says whether
    the profile has its answers enforced, so that the model must be able to. `credential` is the
    name of the one that `api_key`, then a token, or `signing` come from.
    """

    model: str
    api_key: str | None = field(repr=False)
    max_in_flight: int
    base_url: str | None = None
    temperature: float | None = None
    check_model: bool = True
    native: bool = True
    credential: str | None = None
    signing: AwsKeys | None = None

    def url(self, makers: str) -> str:
        """Where requests go: `base_url`, or at need the maker's own address."""
        return (self.base_url or makers).rstrip("/")

    def key_header(self, name: str, prefix: str = "") -> dict[str, str]:
        """The header with the key; none without a key that a header can carry."""
        key = self.api_key
        return {name: prefix + key} if key and is_header_text(key) else {}


def is_header_text(text: str) -> bool:
    """Whether a header can carry it: a line break would begin another header."""
    return text.isascii() and text.isprintable()


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """The bounds of one exchange, beside the time-out that each call brings along."""

    connect_timeout_s: float = 5.0  # until a connection is free or made
    preflight_timeout_s: float = 10.0  # of each question
    # An answer of the largest size takes 1 MB with escapes.
    response_bytes_max: int = 2 * 1024 * 1024
