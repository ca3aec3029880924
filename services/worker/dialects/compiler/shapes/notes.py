"""The rules that a provider will not enforce, as a bounded list of sentences for the result."""

from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX
from answerbus.wire import clip

PLACES_NAMED_MAX = 2  # of one keyword; a schema of many fields would otherwise fill every result


class Notes:
    """Collects notes, one for each keyword, in the order of finding."""

    def __init__(self) -> None:
        self._unenforced: dict[str, dict[str, None]] = {}
        self._texts: dict[str, None] = {}

    def not_enforced(self, keyword: str, path: str) -> None:
        """A rule of the schema that the provider does not get, or does not enforce."""
        self._unenforced.setdefault(keyword, {})[path or "/"] = None

    def as_text(self, path: str) -> None:
        """A part of the answer that travels as JSON text, since its members are not known."""
        self._texts[f"what {path or '/'} allows is carried as JSON text; checked after"] = None

    def texts(self) -> tuple[str, ...]:
        """At most as many as an event carries; the last one says how many more there are."""
        rules = [_sentence(keyword, list(paths)) for keyword, paths in self._unenforced.items()]
        texts = [clip(text, NOTE_BYTES_MAX) for text in (*rules, *self._texts)]
        if len(texts) <= NOTES_MAX:
            return tuple(texts)
        more = len(texts) - (NOTES_MAX - 1)
        return (*texts[: NOTES_MAX - 1], f"{more} more parts are not enforced; checked after")


def _sentence(keyword: str, paths: list[str]) -> str:
    named = " and ".join(paths[:PLACES_NAMED_MAX])
    more = len(paths) - PLACES_NAMED_MAX
    where = f"{named}, and {more} more" if more > 0 else named
    return f"`{keyword}` is not enforced by this provider; checked after (at {where})"
