"""One sign-in at an issuer: what the browser keeps of it, and what must be returned; pure."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field

SIGN_IN_S = 600  # from leaving for the issuer to coming back
# Sign-ins that came back and are remembered; beyond that the oldest is forgotten.
SPENT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class SignIn:
    """`cookie` is with the browser alone; the rest is derived of it, and says nothing about it."""

    cookie: str = field(repr=False)

    @property
    def state(self) -> str:
        """The `state` that the issuer sends back: proof that it is the same browser."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """The `nonce` that the ID token must repeat: proof that it was made for this sign-in."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """The verifier by which the code is redeemed (PKCE, RFC 7636)."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """The digest of the verifier, which the issuer gets first."""
        return _base64(hashlib.sha256(self.verifier.encode()).digest())

    def _derived(self, name: str) -> str:
        return _base64(hmac.digest(self.cookie.encode(), name.encode(), "sha256"))


class SignIns:
    """Those that were begun here: signed with a key of this process, and good once.

    Nothing is kept of a sign-in until it comes back: those that are only begun fill no memory.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._spent: dict[str, float] = {}  # cookie to when it ends

    def begin(self, chance: str, now_s: float) -> SignIn:
        """A new one; `chance` is fresh randomness."""
        payload = f"{int(now_s)}.{chance}"
        return SignIn(f"{payload}.{self._signature(payload)}")

    def resume(self, cookie: str, state: str, now_s: float) -> SignIn | None:
        """The one that this browser began, if it returns from it in time and for the first time."""
        payload, _, signature = cookie.rpartition(".")
        began, _, _ = payload.partition(".")
        if not _same(signature, self._signature(payload)):
            return None
        found, ends_s = SignIn(cookie), int(began) + SIGN_IN_S
        if not _same(state, found.state):
            return None
        if now_s >= ends_s or cookie in self._spent:
            return None
        self._spend(cookie, ends_s, now_s)
        return found

    def _spend(self, cookie: str, ends_s: float, now_s: float) -> None:
        self._spent = {it: ends for it, ends in self._spent.items() if ends > now_s}
        if len(self._spent) >= SPENT_MAX:
            del self._spent[next(iter(self._spent))]
        self._spent[cookie] = ends_s

    def _signature(self, payload: str) -> str:
        return _base64(hmac.digest(self._key, payload.encode(errors="replace"), "sha256"))


def _same(given: str, ours: str) -> bool:
    """The input may not be valid Unicode."""
    return hmac.compare_digest(given.encode(errors="replace"), ours.encode())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
