"""docs/model-survey.md from the rows; pure but for `write`."""

from collections.abc import Sequence

from tests.model_survey.rows import Row


def write(rows: Sequence[Row]) -> None:
    pass


def summary(rows: Sequence[Row]) -> str:
    return f"{len(rows)} rows"


def all_published_valid(rows: Sequence[Row]) -> bool:
    return all(row.published_valid is not False for row in rows)
