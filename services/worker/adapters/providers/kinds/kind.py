"""A provider, ours or that of a plug-in: its profiles, its API, its dialect, its prices."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, TypeVar

from services.settings.profiles import ReachedProfile
from services.worker.adapters.providers.apis.api import Api, Signer
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.core.attempt.tariff import STANDARD, Kept
from services.worker.dialects.dispatch import DialectName

P = TypeVar("P", bound=ReachedProfile)


@dataclass(frozen=True, slots=True)
class SampleReply:
    """A response as the provider gives it, with status 200."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SampleReplies:
    """Responses that the conformance kit plays.

    `answered` is the text `{}`, from 12 tokens in 3; so is `refused` without its text, and
    `truncated` at the output limit. None where the API has no such sign. `error` is the body of an
    error, and `ready` the one of each question at start if all is well.
    """

    answered: SampleReply
    truncated: SampleReply
    refused: SampleReply | None
    error: bytes
    ready: bytes


class ProviderKind(ABC, Generic[P]):
    """A provider, by the name that `provider` has in the settings: an object without state.

    A plug-in is an instance of a subclass, under an entry point of the group `answerbus.providers`
    that has the same name.
    """

    profile: type[P]
    dialect: DialectName  # what it enforces of a schema
    vendor: str | None = None  # whose models these are in a list of prices
    audience: str | None = None  # of tokens, where a profile names none
    example: Mapping[str, Any] = {}  # what a profile must have beside `provider` and `model`

    @abstractmethod
    def api(self, profile: P, connection: Connection) -> Api:
        """How it is asked for that profile."""

    @abstractmethod
    def samples(self, profile: P) -> SampleReplies:
        """Responses that are read by the `api` of that profile."""

    def standard_api(self, profile: P, connection: Connection) -> Api | None:  # noqa: ARG002
        """How a call is made again, at once, that a tier had no room for; None for not at all."""
        return None

    def sign(self, profile: P, connection: Connection) -> Signer | None:  # noqa: ARG002
        """What authorizes a single request, where its headers do not; None where they do."""
        return None

    def shows_schema(self, profile: P) -> bool:  # noqa: ARG002
        """Whether the prompt shows the schema, as the server enforces it unseen."""
        return False

    def asked_tier(self, profile: P) -> str:  # noqa: ARG002
        """The service tier that it asks for, by the name that its price has."""
        return STANDARD

    def kept(self, profile: P) -> Kept:  # noqa: ARG002
        """How long a cache keeps what a call may write to it."""
        return "not"

    def cache_write_factors(self) -> tuple[Decimal, Decimal]:
        """The price of a cache write, for minutes and for an hour, as a factor of input's."""
        return Decimal(1), Decimal(1)

    def listed(self, profile: P) -> tuple[str, str] | None:
        """The vendor and the model under which a list of prices has it, None if it has none."""
        return (self.vendor, profile.model) if self.vendor and not profile.base_url else None
