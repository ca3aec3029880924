"""Secrets that others may echo, taken out of texts before these are kept, published or shown."""

from collections.abc import Iterable, Iterator

from answerbus.readings import readings, text_bytes, unescaped
from answerbus.spans import TextSpan

MASKED = "***"
# As many characters of a secret, one after the other, are taken for the secret. A shorter key is
# a word that fills a field, such as `none`, `ollama` or `x`: to mask it would spoil ordinary text.
RUN_CHARS = 8
# Longer words that local servers and manuals give where a client insists on a key.
_PLACEHOLDERS = frozenset(
    f"{no}{sign}{word}"
    for sign in ("-", "_", "")
    for no, word in (
        *(("lm", "studio"), ("not", "needed"), ("not", "required"), ("no", f"api{sign}key")),
        *(("no", f"key{sign}needed"), ("no", f"key{sign}required"), ("dummy", "key")),
        *(("sk", f"no{sign}key{sign}required"), ("change", "me"), ("pass", "word")),
        ("place", "holder"),
    )
)
# A run of 8 covers one of the words of 4 that begin at each fourth character, so that a quarter
# of a text's places are looked at.
_WORD_CHARS = 4
# The work in one text, in characters that are compared (10 ns or so): for each of its characters,
# and however short it is. An ordinary text takes a fifth of it, a Base64 of Base64 two thirds.
WORK_PER_CHAR_MAX = 40
WORK_MIN = 1024 * 1024
_WORK_PER_WORD = 32  # that was found and is compared with all runs
_WORK_PER_SPAN = 256  # whose place in the text is looked for


def is_secret(text: str | None) -> bool:
    """Whether a key is long enough to be one, and no word that everybody writes into that field."""
    return text is not None and len(text) >= RUN_CHARS and text.lower() not in _PLACEHOLDERS


class Mask:
    """Replaces secrets by `***`: each run of 8 characters of one, however a text spells it.

    What counts as a spelling is defined in readings.py; capitals and small letters are alike.
    """

    def __init__(self, secrets: Iterable[str | None]) -> None:
        views = {
            view for secret in secrets if secret and is_secret(secret) for view in _views(secret)
        }
        self._runs = {run for view in views for run in _pieces(view, RUN_CHARS)}
        words = {word for view in views for word in _pieces(view, _WORD_CHARS)}
        self._words = {number for word in words for number in _numbers(word)}
        signs = {*"".join(views).encode("latin-1", errors="replace")}
        self._is_text = text_bytes(bytes(b for b, folded in enumerate(_FOLDED) if folded in signs))

    def __call__(self, text: str) -> str:
        """The text without them; nothing of a text that takes too much work to read."""
        if not self._runs or len(text) < RUN_CHARS:
            return text
        spans: list[TextSpan] = []
        work_left = WORK_MIN + WORK_PER_CHAR_MAX * len(text)
        for reading in readings(text, self._is_text):
            places = self._places(reading.text)
            work_left -= reading.work + _WORK_PER_WORD * len(places)
            if work_left < 0:
                return MASKED
            if places:
                found = [*self._found(_folded(reading.text), places)]
                work_left -= _WORK_PER_SPAN * len(found)
                if work_left < 0:
                    return MASKED
                spans += [reading.source(*span) for span in found]
        return _replaced(text, sorted(spans)) if spans else text

    def _places(self, text: str) -> list[int]:
        """Where a word of a secret is among the words that begin at each fourth character."""
        numbers, words = _numbers(text), self._words
        if words.isdisjoint(numbers):
            return []
        return [_WORD_CHARS * at for at, number in enumerate(numbers) if number in words]

    def _found(self, folded: str, places: Iterable[int]) -> Iterator[TextSpan]:
        """Each stretch of runs of a secret."""
        runs, start = self._runs, 0
        for at in places:
            start = max(start, at - _WORD_CHARS + 1)
            while start <= at:
                first = start
                while folded[start : start + RUN_CHARS] in runs:
                    start += 1
                if start > first:
                    yield TextSpan(first, start - 1 + RUN_CHARS)
                start += 1


def _views(secret: str) -> Iterator[str]:
    """As it is written and as its bytes are, one character each; unescaped too, as texts are."""
    for view in (secret, secret.encode(errors="surrogatepass").decode("latin-1")):
        yield from (_folded(plain) for plain in unescaped(view))


def _folded(text: str) -> str:
    """In small letters, each character in its place."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)


_FOLDED = bytes(ord(_folded(chr(code))) for code in range(256))


def _numbers(text: str) -> memoryview:
    """Each four characters of it as a number, one byte a character, in small letters.

    Characters beyond Latin-1 are alike here, so that two words of one number may differ.
    """
    try:
        signs = text.encode("latin-1").translate(_FOLDED)
    except UnicodeEncodeError:
        signs = _folded(text).encode("latin-1", errors="replace")
    return memoryview(signs[: len(signs) // _WORD_CHARS * _WORD_CHARS]).cast("I")


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(len(text) - size + 1))


def _replaced(text: str, spans: Iterable[TextSpan]) -> str:
    """With one `***` for those, in their order, that overlap or touch."""
    parts: list[str] = []
    end = -1
    for span in spans:
        if span.start > end:
            parts += [text[max(end, 0) : span.start], MASKED]
        end = max(end, span.end)
    return "".join((*parts, text[max(end, 0) :]))


NO_MASK = Mask(())
