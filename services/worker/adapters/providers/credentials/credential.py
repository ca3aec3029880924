"""A credential: gives tokens, or keys that sign, each for a time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.worker.adapters.providers.apis.connection import AwsKeys, is_header_text


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that authorizes calls for `lasts_s` seconds from now; None: unknown."""

    key: str | AwsKeys = field(repr=False)
    lasts_s: float | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All parts that are secret."""
        match self.key:
            case AwsKeys(secret_key=secret, session_token=session):
                return (secret, session) if session else (secret,)
            case str():
                return (self.key,)

    @property
    def is_usable(self) -> bool:
        """Whether a header can carry it; a plug-in may have given anything."""
        if not (self.lasts_s is None or _is_number(self.lasts_s)):
            return False
        sent = [self.key]
        if isinstance(self.key, AwsKeys):
            session = self.key.session_token
            sent = [self.key.access_key, *([session] if session else [])]
        return all(isinstance(text, str) and text and is_header_text(text) for text in sent)


def _is_number(value: object) -> bool:
    """Also of an integer beyond a double; NaN is none, and True is none."""
    return type(value) in {int, float} and value == value  # noqa: PLR0124


Credential = Callable[[str | None], Awaitable[Token]]
"""An async function from an audience (of the settings, else of the provider) to a token. It may
raise anything; it is asked before a token ends, and once when one is refused."""


class NoTokenError(Exception):
    """A credential gave no token: the text says why in a part of a sentence, without secrets."""
