"""The port to a language model's API."""

from dataclasses import dataclass
from typing import Protocol

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply


@dataclass(frozen=True, slots=True)
class Ready:
    """The provider can serve its profile; `software` is what serves it, where that is known."""

    software: str | None = None


@dataclass(frozen=True, slots=True)
class NotReady:
    """The provider will never serve its profile; `remedy` says in one sentence what to change."""

    remedy: str


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The provider does not serve its profile now, and may later with the same settings.

    `connected` is False where its server took no connection.
    """

    why: str
    connected: bool = True


Readiness = Ready | NotReady | Unhealthy


class Provider(Protocol):
    """One language model API behind one profile."""

    name: str
    model: str

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """Make exactly one call. Every failure of the provider is a Reply, never an exception.

        `timeout_s` bounds the call itself: an answer that has arrived, and is paid, is read and
        masked however long that takes. Cancelling it abandons the call.
        """
        ...

    async def preflight(self) -> Readiness:
        """Find out without cost whether the profile can work: server, key, model, schemas."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
