"""A text in the prompt of a request: its instructions, conversation and facts; pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic_core import to_json

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.request import Context, Request
from answerbus.request_key import RequestKey
from answerbus.topics import DEAD_LETTERS, REQUESTS
from services.operators.records.stored import RecordPosition, Stored

TEXT_CHARS_MAX = 200
AROUND_CHARS = 60  # of an excerpt, before and after the text

PROMPT_TOPICS = (REQUESTS, DEAD_LETTERS)  # dead letters keep their request for longer


@dataclass(frozen=True, slots=True)
class PromptMatch:
    """A request whose prompt has the text, and where; `at_ms` is Kafka's time of the record."""

    key: RequestKey
    place: RecordPosition
    at_ms: int
    part: str
    excerpt: str


class PromptText:
    """The text to search for; ASCII letters match in either case.

    Values of JSON may have spaces between them, here and in a record.
    """

    def __init__(self, text: str) -> None:
        unspaced = text.replace(", ", ",").replace(": ", ":")
        self._text, self._in_json = text.lower(), tuple({text.lower(), unspaced.lower()})
        spaced = unspaced.replace(",", ", ").replace(":", ": ")
        forms = {text, unspaced, spaced}
        written = (
            json.dumps(form, ensure_ascii=is_ascii) for form in forms for is_ascii in (True, False)
        )
        self._bytes = {form[1:-1].encode(errors="replace").lower() for form in written}

    def match(self, stored: Stored) -> PromptMatch | None:
        """Where the text is, None if nowhere. Records without its bytes are not decoded.

        Those with a backslash are: any character may be escaped in JSON, in several ways.
        """
        value = (stored.value or b"").lower()
        if b"\\" not in value and not any(form in value for form in self._bytes):
            return None
        match decode(stored.value or b""):
            case Request() as asked:
                return self._in_request(asked, stored)
            case DeadLetter(request=Request() as asked):
                return self._in_request(asked, stored)
            case _:
                return None

    def _in_request(self, asked: Request, stored: Stored) -> PromptMatch | None:
        for part, content, is_json in _parts(asked.context):
            lower = content.lower()
            at = max(lower.find(text) for text in (self._in_json if is_json else (self._text,)))
            if at >= 0:
                excerpt = _excerpt(content, at, len(self._text))
                return PromptMatch(RequestKey.of(asked), stored.place, stored.at_ms, part, excerpt)
        return None


def _parts(context: Context) -> Iterator[tuple[str, str, bool]]:
    """Name and text of each, and whether the text is JSON."""
    yield "instructions", context.instructions, False
    for number, message in enumerate(context.messages, start=1):
        yield f"message {number}", message.content, False
    for fact in context.facts:
        value = fact.value
        # Python's encoder takes ten times as long for numbers, and holds the loop meanwhile.
        text = value if isinstance(value, str) else to_json(value).decode()
        yield f"fact {fact.name}", text, not isinstance(value, str)


def _excerpt(content: str, at: int, length: int) -> str:
    first, last = max(0, at - AROUND_CHARS), at + length + AROUND_CHARS
    lead, end = "…" if first else "", "…" if last < len(content) else ""
    return lead + " ".join(content[first:last].split()) + end
