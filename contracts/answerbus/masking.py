"""Secrets that others may echo, taken out of texts before these are kept, published or shown."""

import base64
import re
from collections.abc import Iterable, Iterator

MASKED = "***"
# Servers without keys are given a word such as `none`, `ollama` or `lm-studio`: to mask it would
# spoil ordinary text, and keeps no secret. Whoever makes keys makes longer ones.
SECRET_CHARS_MIN = 12
SECRET_WITH_DIGIT_CHARS_MIN = 8
# Counted, since a long row of either would take a search without an end the square of its length.
_BACKSLASHES = r"\\{1,8}"
_PERCENT = "%(?:25){0,4}"


def is_secret(text: str | None) -> bool:
    """Whether a key is long enough to be one, so that ordinary text does not hold it by chance."""
    if not text:
        return False
    has_digit = any(map(str.isdigit, text))
    return len(text) >= (SECRET_WITH_DIGIT_CHARS_MIN if has_digit else SECRET_CHARS_MIN)


class Mask:
    """Replaces secrets by `***`: as they are, begun at the end of a cut text, or written otherwise.

    Otherwise is: with escapes of JSON, URLs or HTML, in Base64 (also amid more), in hexadecimal.
    """

    def __init__(self, secrets: Iterable[str | None]) -> None:
        known = sorted({one for one in secrets if one and is_secret(one)}, key=len, reverse=True)
        self._secrets = tuple(known)
        self._written = tuple(form for one in known for form in _written(one))
        self._escaped = tuple(_escaped(one) for one in known)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for form in (*self._secrets, *self._written):
            text = text.replace(form, MASKED)
        if "\\" in text or "%" in text or "&" in text:
            for pattern in self._escaped:
                text = pattern.sub(MASKED, text)
        for secret in self._secrets:
            text = _without_begun(text, secret)
        return text


NO_MASK = Mask(())


def _written(secret: str) -> Iterator[str]:
    raw = secret.encode(errors="surrogatepass")
    for before in range(3):  # Base64 has another text for each place in a group of three bytes
        for code in (base64.b64encode, base64.urlsafe_b64encode):
            coded = code(bytes(before) + raw).decode()
            # The first and the last character may hold bits of what stands beside the secret.
            yield coded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
    yield raw.hex()
    yield raw.hex().upper()


def _escaped(secret: str) -> re.Pattern[str]:
    """Any mixture of literal characters and their escapes, also escaped again."""
    return re.compile("".join(f"(?:{'|'.join(_spellings(sign))})" for sign in secret))


def _spellings(sign: str) -> Iterator[str]:
    yield re.escape(sign)
    if not sign.isalnum():
        yield _BACKSLASHES + re.escape(sign)
    units = sign.encode("utf-16-be", errors="surrogatepass")
    yield "".join(
        f"{_BACKSLASHES}u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2)
    )
    raw = sign.encode(errors="surrogatepass")
    yield "".join(f"{_PERCENT}(?i:{byte:02x})" for byte in raw)
    yield f"&#(?:0{{0,6}}{ord(sign)}|(?i:x0{{0,6}}{ord(sign):x}));"


def _without_begun(text: str, secret: str) -> str:
    """Without the beginning of a secret at the end, where a text was cut."""
    body = text.removesuffix("…")
    for size in range(len(secret) - 1, SECRET_WITH_DIGIT_CHARS_MIN - 1, -1):
        if body.endswith(secret[:size]):
            return body[:-size] + MASKED + text[len(body) :]
    return text
