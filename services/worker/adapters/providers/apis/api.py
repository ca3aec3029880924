"""A provider's API for the one HTTP provider: builds requests and reads responses. Pure."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from services.worker.adapters.providers.apis.connection import Connection
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from services.worker.ports.provider import NotReady, Readiness, Unhealthy


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to `path` under the base URL; `body` is sent as JSON."""

    method: Literal["GET", "POST"]
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response as it came, its body cut at the limit; header names in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Signer = Callable[[str, str, bytes, datetime], Mapping[str, str]]
"""The headers that authorize a single request: of its method, its target, its body, and now."""

# Each question is answered by a 2xx, or by what else it came to.
Question = Generator[HttpRequest, HttpResponse | Reply, NotReady | Unhealthy | None]
Preflight = Generator[HttpRequest, HttpResponse | Reply, Readiness]


class Api(Protocol):
    """One API of one maker, for one profile: a value without I/O, clock and chance."""

    @property
    def name(self) -> str:
        """The provider's name in a profile."""
        ...

    @property
    def connection(self) -> Connection: ...

    @property
    def base_url(self) -> str:
        """The URL that each path is appended to."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of all its requests: the key, and the API's version where it wants one."""
        ...

    def request(self, prompt: Prompt) -> HttpRequest:
        """The one request that asks the model."""
        ...

    def parse_response(
        self, status: int, headers: Mapping[str, str], body: bytes, limit: int, /
    ) -> Reply:
        """Read a 2xx; `limit` is the output limit in tokens that was asked for."""
        ...

    def parse_error(
        self, status: int, headers: Mapping[str, str], body: bytes, now: datetime, /
    ) -> Reply:
        """Read any other status; `now` is what a date in `Retry-After` counts from at need.

        The limit of a Truncated is put in by the caller.
        """
        ...

    def preflight(self) -> Preflight:
        """Ask, without cost, whether the profile can work."""
        ...
