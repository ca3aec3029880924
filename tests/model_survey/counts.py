"""What the rows come to: counts by group, and how many were valid after one attempt and more."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.model_survey.questions import ATTEMPTS
from tests.model_survey.rows import Row


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a group: questions, raw answers that ended by themselves, and how the questions ended.

    `fit_wire` and `raw_valid` are of the raw answers, by jsonschema: under the wire schema and
    under the schema that was asked for. `stricter` are those which jsonschema takes and the worker
    does not; `looser` would be those which the worker takes and jsonschema does not.
    """

    group: str
    asked: int
    attempts: int
    ended: int
    fit_wire: int
    raw_valid: int
    stricter: int
    looser: int
    cut: int
    published: int
    published_valid: int
    refusals: int
    dead_letters: int


def counted(group: str, rows: Sequence[Row]) -> Counts:
    """The counts of these rows under that name."""
    tries = [made for row in rows for made in row.tries]
    ended = [made for made in tries if made.ended == "by itself"]
    return Counts(
        group=group,
        asked=len(rows),
        attempts=len(tries),
        ended=len(ended),
        fit_wire=sum(made.fits_wire is True for made in ended),
        raw_valid=sum(made.is_valid is True for made in ended),
        stricter=sum(made.is_valid is True and not made.accepted for made in ended),
        looser=sum(made.is_valid is False and made.accepted for made in ended),
        cut=sum(made.ended == "cut" for made in tries),
        published=sum(row.published_valid is not None for row in rows),
        published_valid=sum(row.published_valid is True for row in rows),
        refusals=sum(row.outcome == "refusal" for row in rows),
        dead_letters=sum(row.outcome == "dead_letter" for row in rows),
    )


def by_group(rows: Iterable[Row]) -> list[Counts]:
    """Each group, in the order of the questions."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return [counted(group, found) for group, found in groups.items()]


def valid_after(rows: Sequence[Row]) -> list[int]:
    """How many had a valid answer after one attempt, after two, and so on."""
    return [
        sum(row.accepted_at is not None and row.accepted_at <= attempt for row in rows)
        for attempt in range(1, ATTEMPTS + 1)
    ]


def valid_within(rows: Sequence[Row]) -> list[int]:
    """How many questions had a valid answer the first time, within two times, and so on.

    Each time is a row of its own, whose id ends in its number.
    """
    times: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.id):
        times.setdefault(row.id.rpartition("-")[0], []).append(row)
    return [
        sum(any(row.accepted_at for row in asked[:count]) for asked in times.values())
        for count in range(1, ATTEMPTS + 1)
    ]
