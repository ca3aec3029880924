"""Checks Ed25519 signatures (RFC 8032) by the standard library alone; reads public keys.

All that goes in is public, so it need not take the same time always. Signing is done elsewhere.
"""

import base64
import binascii
import hashlib

_DER = bytes.fromhex("302a300506032b6570032100")  # before the 32 bytes of a key
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
_Point = tuple[int, int, int, int]


def _point(data: bytes) -> _Point | None:
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    x = _P - x if x & 1 != sign else x
    return x, y, 1, x * y % _P


def _sum(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c, d = 2 * one[3] * other[3] * _D % _P, 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(number: int, point: _Point) -> _Point:
    found: _Point = (0, 1, 1, 0)
    while number:
        if number & 1:
            found = _sum(found, point)
        point, number = _sum(point, point), number >> 1
    return found


def is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the holder of the key signed exactly this message."""
    if len(key) != 32 or len(signature) != 64:
        return False
    public, commitment = _point(key), _point(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    base = _point((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
    if public is None or commitment is None or base is None or scalar >= _L:
        return False
    hashed = hashlib.sha512(signature[:32] + key + message).digest()
    other = _sum(commitment, _times(int.from_bytes(hashed, "little") % _L, public))
    one = _times(scalar, base)
    return not (
        (one[0] * other[2] - other[0] * one[2]) % _P or (one[1] * other[2] - other[1] * one[2]) % _P
    )


def key_of(text: bytes) -> bytes | None:
    """The 32 bytes of a public key: PEM as openssl writes it, or 64 hexadecimal digits."""
    try:
        if b"-----BEGIN PUBLIC KEY-----" not in text:
            found = bytes.fromhex(text.decode().strip())
            return found if len(found) == 32 else None
        inner = b"".join(line for line in text.splitlines() if not line.startswith(b"-----"))
        der = base64.b64decode(inner, validate=True)
    except (ValueError, binascii.Error):
        return None
    return der[12:] if der[:12] == _DER and len(der) == 44 else None
