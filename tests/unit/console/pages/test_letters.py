"""Pages of dead letters: groups by why, filters in the address, and no more than what is shown."""

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from answerbus.registry import Registry
from services.console.tasks.jobs import Job
from services.console.views.replay_form import ReplayForm
from services.console.views.units import usd
from services.operators.dead_letters.forecast import Forecast, KnownNames
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.prepare_replay import ReplayOrder
from services.operators.dead_letters.worst_case import ProfileCost
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.tariffs import flat
from tests.unit.console.context import OPERATOR, VIEWER, Site, site
from tests.unit.operators.dead_letters.examples import dead_letter_event
from tests.unit.operators.dead_letters.test_prepare_replay import prepared
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored

PATH = "/actions/0/args"
INVALID = {"kind": "invalid", "problems": [{"path": PATH, "code": "json_text", "expected": "x"}]}
TIMED_OUT = {"kind": "timed_out", "after_s": 9.0}


def spent(name: str, offset: int, failure: dict[str, Any] = INVALID, age_min: int = 5) -> Stored:
    """A letter whose budget is spent, after three attempts that failed like this."""
    return stored(
        "dead_letter/budget_exhausted_attempts",
        offset=offset,
        dead_letter_id=f"{name}.dead-letter",
        request_id=name,
        workflow_id=f"order-{name}",
        at=as_text(NOON_MS - age_min * MINUTE_MS),
        prior=[{"attempt": n, "failure": failure} for n in (1, 2, 3)],
    )


def some() -> list[Stored]:
    invalid = [spent(f"bad-{n}", n) for n in range(3)]
    slow = [spent(f"slow-{n}", 10 + n, TIMED_OUT, age_min=600) for n in range(2)]
    return [*invalid, *slow]


async def text_of(here: Site, address: str, token: str = OPERATOR) -> str:
    response = await here.get(address, await here.log_in(token))
    assert response.status == 200, await response.text()
    return await response.text()


async def test_groups_say_why_and_not_how_it_ended() -> None:
    async with site(*some()) as here:
        text = await text_of(here, "/letters")

    groups = re.findall(r'<span class="why">([^<]*)</span>', text)
    assert groups == [f"{PATH} is not JSON", "the provider did not answer in time"]
    assert "budget exhausted" not in text


async def test_viewers_group_by_codes_and_never_by_paths() -> None:
    async with site(*some()) as here:
        for address in ("/letters", "/letters?by=why", "/letters/list", "/"):
            assert PATH not in unescape(await text_of(here, address, VIEWER)), address
        cookie = await here.log_in(VIEWER)
        why = quote(f"invalid: json_text at {PATH}")
        assert (await here.get(f"/letters/list?why={why}", cookie)).status == 403
        assert (await here.get(f"/letters/list?problem=json_text&why={why}", cookie)).status == 403
        assert "3 dead letters" in await text_of(here, "/letters/list?problem=json_text", VIEWER)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("since=15m", 3),
        ("since=today", 5),
        ("since=any", 5),
        ("until=1h", 2),
        ("from=2026-11-21T11:50&to=", 3),
        ("from=&to=2026-11-21T11:50", 2),
        ("from=2026-11-21T01:00&to=2026-11-21T03:00", 2),
        ("q=SLOW", 2),
        ("q=order-bad-1", 1),
        ("q=json_text", 3),
        ("q=acme&since=15m", 3),
        ("q=", 5),
        (f"why={quote('timed_out')}", 2),
        ("cause=budget_exhausted&sort=newest", 5),
    ],
)
async def test_filters_of_an_address(query: str, count: int) -> None:
    async with site(*some()) as here:
        groups = await text_of(here, f"/letters?{query.replace('&sort=newest', '')}")
        listed = await text_of(here, f"/letters/list?{query}")

    assert f"<b>{count}</b> dead letter{'' if count == 1 else 's'}" in groups
    assert f"All {count}: edit" in listed


@pytest.mark.parametrize(
    "address",
    [
        "/letters?sort=wrong",
        "/letters/list?sort=letters",
        "/letters/list?from=soon",
        "/letters/list?since=1h&until=2h",
        "/letters/list?again=7",
        "/letters/list?seen=x",
        "/letters?again=1",
        "/letters?q=x&text=y",
        "/find?id=x",
    ],
)
async def test_what_a_page_does_not_know_is_an_error(address: str) -> None:
    async with site(*some()) as here:
        assert (await here.get(address, await here.log_in(OPERATOR))).status == 400


async def test_dead_letters_are_sorted_as_the_address_says() -> None:
    async with site(*some()) as here:
        found = {
            sort: re.findall(
                r'name="id" value="([^"]+)"', await text_of(here, f"/letters/list?sort={sort}")
            )
            for sort in ("oldest", "newest")
        }

    assert found["oldest"][0].startswith("slow-")
    assert found["newest"][0].startswith("bad-")


def fields_of(text: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that goes there; of several with one name the last."""
    form = next(part for part in text.split("<form")[1:] if f'action="{action}"' in part)
    form = form.partition("</form>")[0]
    pairs = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form)
    return {unescape(name): unescape(value) for name, value in pairs}


@pytest.mark.parametrize("page", ["/letters", "/letters/list"])
async def test_a_bulk_action_takes_no_dead_letter_that_came_after_its_page(page: str) -> None:
    async with site(*some()) as here:
        cookie = await here.log_in(OPERATOR)
        text = await (await here.get(f"{page}?q=bad&since=1h", cookie)).text()
        form = {**fields_of(text, "/letters/plan"), "everything": "yes"}
        for number in range(4):
            here.context.feed.state.take(spent(f"bad-later-{number}", 100 + number))
        plan = await (await here.post("/letters/plan", form, cookie)).text()
        fields = fields_of(plan, "/letters/jobs")
        for number in range(4):
            here.context.feed.state.take(spent(f"bad-last-{number}", 200 + number))
        sent = {**fields, "action": "dismiss", "new-reason": "known"}
        response = await here.post("/letters/jobs", sent, cookie)
        job = here.context.jobs.get(1)

    assert "Replay or dismiss 3 dead letters" in plan
    assert response.status == 303
    assert job is not None
    assert sorted(job.keys) == [(f"order-bad-{n}", f"bad-{n}.dead-letter") for n in range(3)]


async def test_a_replay_that_was_refused_after_its_dry_run_means_the_same_dead_letters() -> None:
    """Its page had lost them, and meant all that are open."""
    async with site(*some()) as here:
        cookie = await here.log_in(OPERATOR)
        text = await (await here.get("/letters?q=bad", cookie)).text()
        plan_form = {**fields_of(text, "/letters/plan"), "everything": "yes"}
        plan = await (await here.post("/letters/plan", plan_form, cookie)).text()
        act = {**fields_of(plan, "/letters/jobs"), "action": "dry-run"}
        dry_run = await here.post("/letters/jobs", act, cookie)
        text = await (await here.get(dry_run.headers["Location"], cookie)).text()
        refused = await here.post(
            "/letters/jobs", {**fields_of(text, "/letters/jobs"), "action": "dismiss"}, cookie
        )
        form = fields_of(await refused.text(), "/letters/jobs")
        again = {**form, "action": "dismiss", "new-reason": "known"}
        await here.post("/letters/jobs", again, cookie)
        jobs = [here.context.jobs.get(number) for number in (1, 2)]

    assert refused.status == 400
    assert jobs[0] is not None
    assert jobs[1] is not None
    assert len(jobs[0].keys) == 3
    assert jobs[1].keys == jobs[0].keys


@pytest.mark.parametrize(
    "address",
    [
        f"/letters?{'&'.join(f'none=label:{n}' for n in range(21))}",
        f"/letters/list?{'&'.join(f'none=label:{n}' for n in range(21))}",
        f"/letters?{'&'.join(f'by=label:{n}' for n in range(13))}",
        f"/tail?{'&'.join(f'q={n}' for n in range(60))}",
    ],
    ids=lambda address: address[:14],
)
async def test_an_address_of_many_filters_is_a_400(address: str) -> None:
    """Each filter is a link on each row."""
    async with site(*some()) as here:
        assert (await here.get(address, await here.log_in(VIEWER))).status == 400


async def test_what_died_again_is_listed_by_the_run() -> None:
    again = "bad-0.replay.1"
    replay = {
        "dead_letter_id": "bad-0.dead-letter",
        "round": 1,
        "account": "a",
        "by": "x",
        "edited": False,
    }
    asked = {**body_of("dead_letter/budget_exhausted_attempts")["request"], "replay": replay}
    sent = stored(
        "replayed/unchanged",
        dead_letter_id="bad-0.dead-letter",
        workflow_id="order-bad-0",
        request_id=again,
    )
    died = stored(
        "dead_letter/budget_exhausted_attempts",
        offset=50,
        dead_letter_id=f"{again}.dead-letter",
        request_id=again,
        workflow_id="order-bad-0",
        request=asked,
        round=1,
    )
    async with site(*some(), sent, died) as here:
        for number, name in ((1, "bad-0"), (2, "slow-0")):
            keys, order = (
                [DeadLetterKey(f"order-{name}", f"{name}.dead-letter")],
                ReplayOrder("x", "y"),
            )
            forecast = Forecast(KnownNames(None, Registry()))
            job = Job(number, "replay", keys, order, ReplayForm(), forecast, finished=True)
            here.context.jobs._jobs[number] = job
        page = await text_of(here, "/letters/jobs/1")
        listed = await text_of(here, "/letters/list?again=1&status=any")
        none = await text_of(here, "/letters/list?again=2&status=any")

    assert 'href="/letters/list?again=1&amp;status=any">1</a>' in page
    assert re.findall(r'name="id" value="([^"]+)"', listed) == [f"{again}.dead-letter@order-bad-0"]
    assert "No dead letters." in none


async def test_a_dry_run_says_what_its_replays_cost_at_most_and_why_it_cannot_for_some() -> None:
    cost = ProfileCost(1_000, flat(2, 10))
    forecast = Forecast(KnownNames({"default"}, Registry(), {"default": cost}.get))
    for n, profile in enumerate(("default", "default", "vision")):
        dead_letter = dead_letter_event(
            f"r-{n}", request={"profile": profile, "budget": {"attempts": n + 1}}
        )
        forecast.take(DeadLetterKey.of(dead_letter), prepared(dead_letter))
    most = forecast.worst.micro_usd
    async with site() as here:
        here.context.jobs._jobs[1] = Job(
            1, "dry-run", [], ReplayOrder("x", "y"), ReplayForm(), forecast, finished=True
        )
        page = await text_of(here, "/letters/jobs/1")

    assert most
    assert f"<dt>Cost, at most</dt><dd>{usd(most)}</dd>" in page
    assert "The cost of 1 dead letter cannot be estimated: profile vision is not in the" in page
    assert page.index("r-1") < page.index("r-0")
    assert "no limit" not in page


async def test_an_id_of_several_workflows_is_listed_and_none_is_chosen() -> None:
    name = "bad-0.dead-letter"
    again = stored(
        "dead_letter/budget_exhausted_attempts",
        offset=50,
        dead_letter_id=name,
        request_id="bad-0",
        workflow_id="another",
    )
    dismissed = stored("dismissed/dismissed", offset=51, dead_letter_id=name, workflow_id="another")
    async with site(*some(), again, dismissed) as here:
        cookie = await here.log_in(OPERATOR)
        for address in (f"/letters/one?id={name}", f"/find?q={name}"):
            response = await here.get(address, cookie)
            assert response.status == 303
            listed = response.headers["Location"]
            assert listed == f"/letters/list?q={name}&status=any"
        names = re.findall(r'name="id" value="([^"]+)"', await text_of(here, listed))
        shown = [await here.get(f"/letters/one?id={quote(one)}", cookie) for one in sorted(names)]
        pages = [await one.text() for one in shown]
        fields = fields_of(pages[1], "/letters/jobs")
        act = {**fields, "action": "dry-run"}
        unclear = await here.post("/letters/jobs", {**act, "id": name}, cookie)
        edit = f'{{"{name}": []}}'
        unclear_edit = await here.post("/letters/jobs", {**act, "new-edit": edit}, cookie)
        chosen = await here.post("/letters/jobs", act, cookie)
        job = here.context.jobs.get(1)

    assert sorted(names) == [f"{name}@another", f"{name}@order-bad-0"]
    assert ["Dismissed by" in page for page in pages] == [True, False]
    assert (unclear.status, unclear_edit.status, chosen.status) == (400, 400, 303)
    assert job is not None
    assert job.keys == [("order-bad-0", name)]


async def test_a_replay_says_what_these_requests_cost_before() -> None:
    usage = {"input_tokens": 1_000, "output_tokens": 200, "micro_usd": 250_000}
    async with site(*some()) as here:
        for number in range(3):
            record = stored(
                "attempt/retry",
                request_id=f"bad-{number}",
                workflow_id=f"order-bad-{number}",
                attempt=1,
                usage=usage,
            )
            here.context.feed.state.dead_letters.take(summarize(record))
        cookie = await here.log_in(OPERATOR)
        text = await (await here.get("/letters/list?q=bad", cookie)).text()
        form = {**fields_of(text, "/letters/plan"), "everything": "yes"}
        plan = await (await here.post("/letters/plan", form, cookie)).text()

    cost = "Estimated cost: <b>$0.75</b> and 3,600 tokens in 3 attempts"
    message = f"{cost} – what these requests cost before."
    assert message in plan


async def test_find_leads_to_what_the_text_names() -> None:
    async with site(*some()) as here:
        cookie = await here.log_in(OPERATOR)
        for text, location in (
            ("bad-0.dead-letter", "/letters/one?id=bad-0.dead-letter"),
            ("order-bad-0", "/workflow?id=order-bad-0"),
        ):
            response = await here.get(f"/find?q={quote(text)}", cookie)
            assert (response.status, response.headers["Location"]) == (303, location)


async def test_find_shows_operators_the_prompts_that_have_a_text() -> None:
    context = {
        "instructions": "Where is Zanzibar?",
        "facts": [{"name": "map", "value": ["Bad & X"]}],
    }
    asked = stored("request/minimal", request_id="r-1", workflow_id="geo", context=context)
    dead_letters = "/letters/list?q=bad+%26+x&amp;status=any"
    async with site(*some(), asked) as here:
        cookie, viewer = await here.log_in(OPERATOR), await here.log_in(VIEWER)
        text = await (await here.get("/find?q=ZANZI", cookie)).text()
        page = await (await here.get(f"/find?q={quote(' bad & x ')}", cookie)).text()
        none = await (await here.get("/find?q=Atlantis", cookie)).text()
        data = await (await here.get("/find?q=zanzibar", cookie, Accept="application/json")).json()
        masked = await here.get("/find?q=zanzibar", viewer)

    assert 'href="/workflow?id=geo"' in text
    assert "instructions" in text
    assert "fact map" in page
    assert dead_letters in page
    assert "No prompt has this text." in none
    assert [(one["request_id"], one["excerpt"]) for one in data["matches"]] == [
        ("r-1", "Where is Zanzibar?")
    ]
    assert (masked.status, masked.headers["Location"]) == (
        303,
        "/letters/list?q=zanzibar&status=any",
    )


@pytest.mark.parametrize(
    ("back", "location"),
    [
        ("/letters?by=why", "/letters?by=why"),
        ("//elsewhere.example", "/"),
        ("/\\elsewhere.example", "/"),
        ("https://elsewhere.example", "/"),
        ("/\r\nSet-Cookie: x=y", "/"),
        ("", "/"),
    ],
)
async def test_the_theme_is_kept_and_leads_back_to_a_page_of_ours(back: str, location: str) -> None:
    async with site() as here:
        cookie = await here.log_in(OPERATOR)
        fields = fields_of(await (await here.get("/tail", cookie)).text(), "/theme")
        form = {**fields, "theme": "dark", "back": back}
        response = await here.post("/theme", form, cookie)
        assert (response.status, response.headers["Location"]) == (303, location)
        assert response.cookies["answerbus_theme"].value == "dark"
        assert response.cookies["answerbus_theme"]["httponly"]

        assert fields["back"] == "/tail"
        dark = await here.get("/tail", f"{cookie}; answerbus_theme=dark")
        odd = await here.get("/tail", f'{cookie}; answerbus_theme="><script>')
        assert '<html lang="en" data-theme="dark">' in await dark.text()
        assert '<html lang="en">' in await odd.text()
        assert (await here.post("/theme", {**form, "theme": "pink"}, cookie)).status == 400


@pytest.mark.parametrize(
    ("zone", "beside"),
    [
        ("Europe/Berlin", "12:55:00 CET"),
        ("UTC", None),
        ("../../etc/passwd", None),
        ("x" * 99, None),
    ],
)
async def test_times_stand_beside_those_of_the_browsers_zone(zone: str, beside: str | None) -> None:
    async with site(*some()) as here:
        cookie = f"{await here.log_in(OPERATOR)}; answerbus_zone={zone}"
        text = await (await here.get("/letters/list", cookie)).text()

    assert "2026-11-21 11:55:00</time>" in text
    assert (f'<small class="local">{beside}</small>' in text) == (beside is not None)
    assert ('class="local"' in text) == (beside is not None)


def tried(*answers: dict[str, Any]) -> Stored:
    """A letter with the answers of its attempts, each of which broke the schema."""
    prior = [
        {"attempt": n, "failure": INVALID, "answer": answer}
        for n, answer in enumerate(answers, start=1)
    ]
    asked = {
        **body_of("dead_letter/budget_exhausted_attempts")["request"],
        "answer_schema": {"kind": "contract", "name": "agent_action", "version": 1},
    }
    return stored(
        "dead_letter/budget_exhausted_attempts", dead_letter_id="d", request=asked, prior=prior
    )


async def test_a_dead_letter_shows_what_was_written_beside_the_rule_and_what_has_changed() -> None:
    first, last = ({"actions": [{"tool": "t", "args": text}]} for text in ("npm i", "npm ci"))
    async with site(tried(first, last)) as here:
        shown = await text_of(here, "/letters/one?id=d")
        earlier = await text_of(here, "/letters/one?id=d&attempt=1")
        viewer = await text_of(here, "/letters/one?id=d", VIEWER)
        cookie = await here.log_in(OPERATOR)
        assert (await here.get("/letters/one?id=d&attempt=9", cookie)).status == 400

    wrong = r'<li class="marked">\s*&#34;args&#34;: &#34;npm ci&#34;</li><li class="fault">/actions'
    assert re.search(wrong, shown)
    assert re.search(r'<li class="rule">\s*&#34;args&#34;: {', shown)
    assert re.search(r'<li class="less">-\s*&#34;args&#34;: &#34;npm i&#34;', shown)
    assert re.search(r'<li class="more">\+\s*&#34;args&#34;: &#34;npm ci&#34;', shown)
    assert "The last 2 attempts failed at the same place" in shown
    assert "npm i&#34;" in earlier
    assert "npm ci&#34;" not in earlier.partition("The whole request")[0]
    assert "npm" not in viewer
    assert PATH not in viewer


async def test_a_dismissal_can_be_undone_where_it_is_seen() -> None:
    dead_letter = stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter")
    aside = stored("dismissed/dismissed", offset=1, dead_letter_id="x.dead-letter")
    undone = stored("dismissed/dismissed", offset=2, dead_letter_id="x.dead-letter", undone=True)
    async with site(dead_letter, aside) as here:
        text = await text_of(here, "/letters/one?id=x.dead-letter")
        assert "Undo: reopen 1" in text
        assert 'value="dismiss"' not in text
        cookie = await here.log_in(OPERATOR)
        listed = await (await here.get("/letters/list?status=dismissed", cookie)).text()
        plan = {**fields_of(listed, "/letters/plan"), "everything": "yes"}
        chosen = await (await here.post("/letters/plan", plan, cookie)).text()
        assert "Undo: reopen 1" in chosen
    async with site(dead_letter, aside, undone) as here:
        text = await text_of(here, "/letters/one?id=x.dead-letter")
        assert "Undo: reopen" not in text
        assert 'value="dismiss"' in text
        assert "reopened" in await text_of(here, "/actions")
