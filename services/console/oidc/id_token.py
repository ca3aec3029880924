"""Verifies an ID token: its signature, audience, nonce and times."""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm

from services.console.access.person import SignInRefused

# Signatures that public knowledge is not enough to make: neither `none` nor HMAC.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
TOKEN_CHARS_MAX = 64 * 1024
KEYS_MAX = 100  # of an issuer
KEY_CHARS_MAX = 1_400  # of one number in a key: RSA of 8,192 bits
EXPONENT_CHARS_MAX = 8  # of RSA, 48 bits: a greater one costs more and protects nothing
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # private and symmetric keys
_REQUIRED = ("iss", "sub", "aud", "exp", "iat", "nonce")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
# What a token that was made by others can raise, beside the errors of the library.
_UNREADABLE = (
    *(jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError, KeyError),
    *(AttributeError, UnsupportedAlgorithm),
)
_JWT = jwt.PyJWT(options={"enforce_minimum_key_length": True})

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExpectedToken:
    """Claims required of the token of one sign-in."""

    issuer: str
    client_id: str
    nonce: str
    clock_skew_s: int


def claims_of(
    token: str, keys: Sequence[Mapping[str, Any]], expected: ExpectedToken
) -> Claims | SignInRefused:
    """The claims of a valid token; `keys` are those that the issuer publishes."""
    if len(token) > TOKEN_CHARS_MAX:
        return _refused(f"is larger than {TOKEN_CHARS_MAX // 1024} KiB")
    try:
        header = jwt.get_unverified_header(token)
    except _UNREADABLE:
        return _refused("cannot be read")
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        return _refused(f"is signed by {_named(algorithm)}, which is not accepted")
    fitting = _fitting(keys, header.get("kid"), algorithm)
    if not fitting:
        return _refused("is signed with a key that the issuer does not publish")
    claims = _verified(token, fitting, algorithm, expected)
    return claims if isinstance(claims, SignInRefused) else _for_us(claims, expected)


def is_usable(key: object) -> bool:
    """Whether it may be a public key, of a size that is worth looking at."""
    if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
        return False
    numbers = [key.get(name, "") for name in ("n", "e", "x", "y")]
    if _SECRET & key.keys() or not all(isinstance(number, str) for number in numbers):
        return False
    return len(numbers[1]) <= EXPONENT_CHARS_MAX and max(map(len, numbers)) <= KEY_CHARS_MAX


def _fitting(
    keys: Sequence[Mapping[str, Any]], key_id: object, algorithm: str
) -> Sequence[Mapping[str, Any]]:
    """Those that may have signed it; a token that names no key may be of any."""
    return [
        key
        for key in keys[:KEYS_MAX]
        if (key_id is None or key.get("kid") == key_id)
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, algorithm)
    ]


def _verified(
    token: str, keys: Sequence[Mapping[str, Any]], algorithm: str, expected: ExpectedToken
) -> Claims | SignInRefused:
    for key in keys:
        try:
            return _JWT.decode(
                token,
                jwt.PyJWK(dict(key), algorithm=algorithm),
                algorithms=[algorithm],
                audience=expected.client_id,
                issuer=expected.issuer,
                leeway=expected.clock_skew_s,
                options={"require": list(_REQUIRED)},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidKeyError, jwt.PyJWKError):
            continue
        except _UNREADABLE as error:
            return _refused(_fault(error))
    return _refused("has a wrong signature")


def _for_us(claims: Claims, expected: ExpectedToken) -> Claims | SignInRefused:
    """Checks that the library lacks: the nonce, and the audience among several."""
    nonce, party = claims["nonce"], claims.get("azp")
    if not isinstance(nonce, str) or not hmac.compare_digest(
        nonce.encode(errors="replace"), expected.nonce.encode()
    ):
        return _refused("was made for another sign-in")
    audience = claims["aud"]
    is_shared = isinstance(audience, list) and len(audience) > 1
    if (party is not None or is_shared) and party != expected.client_id:
        return _refused("was made for another client")
    return claims


def _fault(error: Exception) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "has expired: compare the clocks of both machines"
        case jwt.ImmatureSignatureError():
            return "is of a time to come: compare the clocks of both machines"
        case jwt.InvalidAudienceError():
            return "was made for another client: see `console.oidc.client_id`"
        case jwt.InvalidIssuerError():
            return "names another issuer: see `console.oidc.issuer`"
        case jwt.MissingRequiredClaimError(claim=claim):
            return f"does not say `{claim}`"
        case _:
            return "cannot be read"


def _refused(what: str) -> SignInRefused:
    return SignInRefused(f"The issuer's ID token {what}.")


def _named(algorithm: object) -> str:
    is_name = isinstance(algorithm, str) and _NAME.fullmatch(algorithm)
    return f"`{algorithm}`" if is_name else "nothing that has a name"
