"""Secrets that others may echo, taken out of texts before these are kept, published or shown."""

from collections.abc import Iterable, Iterator

from answerbus.readings import Span, readings, unescaped

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
# A run of 8 covers one of the blocks of 5 that begin at each fourth character, so that a quarter
# of a text's places are looked at.
_STEP, _BLOCK_CHARS = 4, 5


def is_secret(text: str | None) -> bool:
    """Whether a key is long enough to be one, and no word that everybody writes into that field."""
    return text is not None and len(text) >= RUN_CHARS and text.lower() not in _PLACEHOLDERS


class Mask:
    """Replaces secrets by `***`: each run of 8 characters of one, however a text spells it.

    What counts as a spelling is told in readings.py; capitals and small letters are alike.
    """

    def __init__(self, secrets: Iterable[str | None]) -> None:
        views = {view for one in secrets if one and is_secret(one) for view in _views(one)}
        self._runs = {run for view in views for run in _pieces(view, RUN_CHARS)}
        self._blocks = {block for view in views for block in _pieces(view, _BLOCK_CHARS)}

    def __call__(self, text: str) -> str:
        """The text without them."""
        if not self._runs or len(text) < RUN_CHARS:
            return text
        spans = sorted(
            reading.source(*span)
            for reading in readings(text)
            for span in self._found(_folded(reading.text))
        )
        return _replaced(text, spans) if spans else text

    def _found(self, folded: str) -> Iterator[Span]:
        """Each stretch of runs of a secret."""
        size, blocks, runs = _BLOCK_CHARS, self._blocks, self._runs
        places = range(0, len(folded) - size + 1, _STEP)
        start = 0
        for at in [place for place in places if folded[place : place + size] in blocks]:
            start = max(start, at - _STEP + 1)
            while start <= at:
                first = start
                while folded[start : start + RUN_CHARS] in runs:
                    start += 1
                if start > first:
                    yield Span(first, start - 1 + RUN_CHARS)
                start += 1


NO_MASK = Mask(())


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


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(len(text) - size + 1))


def _replaced(text: str, spans: Iterable[Span]) -> str:
    """With one `***` for those, in their order, that overlap or touch."""
    parts: list[str] = []
    end = -1
    for span in spans:
        if span.start > end:
            parts += [text[max(end, 0) : span.start], MASKED]
        end = max(end, span.end)
    return "".join((*parts, text[max(end, 0) :]))
