"""How one question ended, as a line of JSON: verdicts and counts, no text of the model."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tests.model_survey.questions import Part

Ended = Literal["by itself", "cut", "no answer"]


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt of a question.

    `fits_wire` and `is_valid` are the library jsonschema's verdicts on a raw answer that ended by
    itself: under the wire schema, and, decoded, under the schema that was asked for. `accepted` is
    the worker's own verdict.
    """

    number: int
    ended: Ended
    fits_wire: bool | None
    is_valid: bool | None
    accepted: bool
    failure: str | None = None
    problem: str | None = None  # the code of the first one


@dataclass(frozen=True, slots=True)
class Row:
    """`published_valid` is jsonschema's verdict on what was published, None where nothing was.

    `is_enforced`: the server is told every rule of the schema, so that nothing is noted.
    """

    id: str
    part: Part
    group: str
    outcome: str
    cause: str | None
    published_valid: bool | None
    is_enforced: bool
    tries: tuple[Try, ...]

    @property
    def accepted_at(self) -> int | None:
        """The attempt whose answer was accepted."""
        return next((made.number for made in self.tries if made.accepted), None)


def as_line(row: Row) -> str:
    """One JSON line."""
    return json.dumps(asdict(row))


def read(path: Path) -> list[Row]:
    """Rows of earlier runs; nothing where there is no file."""
    return parsed(path.read_text().splitlines()) if path.exists() else []


def parsed(lines: Iterable[str]) -> list[Row]:
    """The inverse of `as_line`."""
    entries = map(json.loads, lines)
    return [
        Row(**{**entry, "tries": tuple(Try(**made) for made in entry["tries"])})
        for entry in entries
    ]
