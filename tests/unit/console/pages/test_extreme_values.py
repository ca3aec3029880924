"""Every page, while events hold the largest, earliest, latest and strangest values that decode."""

from collections.abc import Sequence
from urllib.parse import urlencode

import pytest

from answerbus.compared import Compared
from answerbus.event import workflow_of
from answerbus.topics import TOPIC_OF_KIND
from services.operators.comparisons.chosen import QUESTION_KINDS
from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, Site, paths, site
from tests.unit.operators.extreme_examples import (
    EXTREMES,
    Extreme,
    events_of,
    extreme_records,
)

pytestmark = pytest.mark.wide

WITH_A_QUERY = {"/find", "/letters/one", "/profiles/comparison", "/workflow"}
PAGES = (
    *(path for path in paths("GET") if not path.startswith("/login") and path not in WITH_A_QUERY),
    "/?range=24h",
    "/profiles?range=24h",
    "/money?range=24h",
    "/money/groups?by=contract,profile,label.tenant&from=999999d",
    "/letters?status=any",
    "/letters?status=any&by=profile&by=label:x&by=model",
    "/?from=9999-12-31T23:50:00Z&to=9999-12-31T23:59:59Z",
    "/money?from=9999-12-31T23:50:00Z&to=9999-12-31T23:59:59Z",
    "/money/groups?by=contract&from=9999-12-31T23:50:00Z&to=9999-12-31T23:59:59Z",
    "/money/groups?by=contract&from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z",
    "/letters?status=any&since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z",
    "/letters/list?status=any",
    "/letters/list?status=any&sort=spent",
    "/letters/list?status=any&q=x",
    "/tail?q=x",
)
NOT_READ = "compared"  # for pages of workflows
UNCOUNTED = "/?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z"  # a day is counted


@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)
async def test_every_page_opens(extreme: Extreme) -> None:
    records = extreme_records(extreme)
    async with site(*records) as here:
        cookie = await here.log_in(OPERATOR)
        pages = (*PAGES, *_pages_of_records(here, records))
        answers = {page: await _status(here, page, cookie) for page in pages}
        uncounted = await _status(here, UNCOUNTED, cookie)

    assert {page: status for page, status in answers.items() if status != 200} == {}
    assert uncounted == 400


def _pages_of_records(here: Site, records: Sequence[Stored]) -> list[str]:
    """One for each dead letter and each workflow."""
    dead_letters = [dead_letter.id for dead_letter in here.context.feed.state.dead_letters]
    assert dead_letters
    read = (event for event in events_of(records) if event.kind != NOT_READ)
    workflows = {workflow_of(event) for event in read} - {None}
    compared = {event.comparison for event in events_of(records) if isinstance(event, Compared)}
    return [
        *(f"/letters/one?{urlencode({'id': name})}" for name in dead_letters),
        *(f"/workflow?{urlencode({'id': name})}" for name in sorted(filter(None, workflows))),
        *(
            f"/profiles/comparison?{urlencode({'name': name, 'show': kind})}"
            for name in compared
            for kind in QUESTION_KINDS
        ),
    ]


async def _status(here: Site, page: str, cookie: str) -> int:
    response = await here.get(page, cookie)
    await response.read()
    return response.status


@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)
def test_the_records_are_events_of_every_kind_with_such_values(extreme: Extreme) -> None:
    records = extreme_records(extreme)
    changed = sum(record.value not in _as_committed() for record in records)

    assert {event.kind for event in events_of(records)} == set(TOPIC_OF_KIND)
    assert changed > 20 or extreme.at_ms != Extreme().at_ms


def _as_committed() -> set[bytes | None]:
    return {record.value for record in extreme_records(Extreme())}
