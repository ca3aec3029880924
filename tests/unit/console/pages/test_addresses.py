"""What an address of the console means: times as on the command line, and no unknown filter."""

import pytest

from services.console.tasks.polling import PollResults, WorkerStatus
from services.console.views.filters import DeadLetterFilters, FilterFault, filters_of
from services.operators.dead_letters.groups import Key
from services.operators.dead_letters.moment import as_text, moment_ms
from tests.unit.console.context import OPERATOR, VIEWER, site
from tests.unit.operators.stored_examples import NOON_MS, stored

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "address",
    [
        "since=x&until=1h",
        "sinse=1h",
        "since=",
        "until=1%20h",
        "status=opne",
        "none=causes",
        "caus=undecodable",
        "label=x&page=1&contracts=c",
        "label:=x",
        "everything=yes",
        "id=letter",
    ],
)
async def test_what_is_no_filter_is_an_error_and_never_all(address: str) -> None:
    async with site(stored("dead_letter/unknown_profile")) as here:
        cookie = await here.log_in(OPERATOR)
        response = await here.get(f"/letters/list?{address}", cookie)
        text = await response.text()

        assert response.status == 400
        assert "edit, replay or dismiss" not in text


@pytest.mark.parametrize(
    "address",
    [
        "/?minute=60",
        "/letters?page=1",
        "/tail?kind=results",
        "/tail?workflows=x",
    ],
)
async def test_other_pages_refuse_what_they_do_not_know(address: str) -> None:
    async with site() as here:
        assert (await here.get(address, await here.log_in(OPERATOR))).status == 400


@pytest.mark.parametrize("path", ["/letters/plan", "/letters/jobs"])
@pytest.mark.parametrize("odd", [("sinse", "1h"), ("status", "opne"), ("since", "soon")])
async def test_a_form_with_an_unknown_filter_does_nothing(path: str, odd: tuple[str, str]) -> None:
    async with site(stored("dead_letter/unknown_profile")) as here:
        cookie = await here.log_in(OPERATOR)
        session = here.context.guard.sessions.find(cookie, 0.0)
        assert session
        form = {"csrf": session.csrf, "everything": "yes", "action": "dismiss", "new-reason": "x"}
        response = await here.post(path, form | dict([odd]), cookie)

        assert response.status == 400
        assert here.context.jobs.get(1) is None


def test_the_fault_says_what_was_probably_meant() -> None:
    found = filters_of([("sinse", "1h")])

    assert isinstance(found, FilterFault)
    assert found.reason.startswith("There is no filter 'sinse'; did you mean 'since'? There are: ")


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("30m", NOON_MS - HOUR_MS // 2),
        ("2h", NOON_MS - 2 * HOUR_MS),
        ("3d", NOON_MS - 72 * HOUR_MS),
        (as_text(NOON_MS - 5), NOON_MS - 5),
        ("2026-11-21T10:00:00 01:00", moment_ms("2026-11-21T10:00:00+01:00", 0)),
        ("1.5h", None),
        ("-1h", None),
        ("yesterday", None),
        ("9999999d", None),
        ("999999d", 0),
        ("1969-07-20T20:17:00Z", 0),
        ("0001-01-01T00:00:00+23:00", None),
    ],
)
def test_times_are_those_of_the_command_line(text: str, at_ms: int | None) -> None:
    assert moment_ms(text, NOON_MS) == at_ms


def test_all_that_filters_say_is_in_their_address() -> None:
    where = ((Key("cause"), "undecodable"), (Key("label:", "tenant"), None))
    chosen = DeadLetterFilters(where, None, since_ms=NOON_MS - 1, until_ms=NOON_MS)

    assert filters_of(chosen.pairs) == chosen
    narrowed = chosen.narrowed([Key("model")], ["m"])
    assert (narrowed.since_ms, narrowed.until_ms) == (NOON_MS - 1, NOON_MS)


async def test_dead_letters_are_those_of_the_time_that_is_asked_for() -> None:
    dead_letters = [
        stored(
            "dead_letter/unknown_profile",
            offset=age,
            dead_letter_id=f"d-{age}",
            at=as_text(NOON_MS - age),
        )
        for age in (HOUR_MS // 2, 3 * HOUR_MS)
    ]
    async with site(*dead_letters) as here:
        cookie = await here.log_in(OPERATOR)
        for address, count in (("since=1h", 1), ("until=1h", 1), ("since=4h&until=2h", 1), ("", 2)):
            text = await (await here.get(f"/letters/list?{address}", cookie)).text()
            assert f"All {count}: edit" in text, address


@pytest.mark.parametrize("path", ["/", "/letters", "/letters/list", "/tail", "/contracts"])
@pytest.mark.parametrize("token", [OPERATOR, VIEWER])
async def test_unhealthy_profiles_stand_first_on_every_page_and_once(path: str, token: str) -> None:
    """Also those of workers that say it in sentences alone, as they did before."""
    away = "no connection to http://house:8080 for 3 s"
    fields = {
        "unhealthy_profiles": {"small": away, "large": away, "keyless": "rejected: status 401"}
    }
    async with site() as here:
        workers = [WorkerStatus(f"http://w-{n}:8080", False, fields) for n in range(3)]
        here.context.poller.results = PollResults(workers=workers)
        text = await (await here.get(path, await here.log_in(token))).text()

    status = text.partition("<h1>")[0].partition('<section id="status"')[2]
    assert "<b>3 profiles are unhealthy</b></a>: keyless, large, small." in status
    assert text.count(away) == status.count(away) == (1 if token == OPERATOR else 0)
    assert "<title>Red: 3 profiles are unhealthy · " in text
    assert 'href="/static/icon-red.svg?v=' in text


@pytest.mark.parametrize(("token", "is_seen"), [(OPERATOR, True), (VIEWER, False)])
async def test_operators_see_the_address_of_a_profile(token: str, is_seen: bool) -> None:
    async with site(stored("attempt/result")) as here:
        bodies = [{"servers": {"default": f"https://{name}.example"}} for name in ("old", "new")]
        here.context.poller.results = PollResults(
            workers=[WorkerStatus("http://w:8080", True, body) for body in (*bodies, bodies[0])]
        )
        text = await (await here.get("/profiles", await here.log_in(token))).text()

    assert ("https://old.example, https://new.example" in text) is is_seen
    assert "200 OK: 1" in text
