"""The rules that a provider will not enforce, as a bounded list of sentences for the result."""

from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX
from answerbus.wire import clip


class Notes:
    """Collects notes; each is kept once, in the order of finding."""

    def __init__(self) -> None:
        """Starts empty."""
        self._texts: dict[str, None] = {}

    def not_enforced(self, keyword: str, path: str) -> None:
        """A rule of the schema that the provider is not told, or will not obey."""
        place = path or "/"
        self._texts[f"`{keyword}` at {place} is not enforced by this provider; checked after"] = (
            None
        )

    def as_text(self, path: str) -> None:
        """A part of the answer that travels as JSON text, since its members are not known."""
        self._texts[f"what {path or '/'} allows is carried as JSON text; checked after"] = None

    def texts(self) -> tuple[str, ...]:
        """At most as many as an event carries; the last one says how many more there are."""
        texts = [clip(text, NOTE_BYTES_MAX) for text in self._texts]
        if len(texts) <= NOTES_MAX:
            return tuple(texts)
        more = len(texts) - (NOTES_MAX - 1)
        return (*texts[: NOTES_MAX - 1], f"{more} more rules are not enforced; checked after")
