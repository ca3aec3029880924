"""What the pages show: to whom, and that what is in it stays text."""

import base64
import re
from html import escape

import pytest

from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, VIEWER, Site, site
from tests.unit.operators.stored_examples import NOON_MS, body_of, stored

SAID = "what-was-said-in-confidence"
SCRIPT_TEXT = "\"'><script>alert(1)</script><svg onload=alert(1)>"
DEAD_LETTER, RAW = f"lost-{SCRIPT_TEXT}", "raw.dead-letter"
PROBLEM = {"path": f"/{SAID}", "code": "wrong", "expected": f"{SAID} {SCRIPT_TEXT}"}
FAILURE = {"kind": "invalid", "problems": [PROBLEM]}
ASKED = {
    **body_of("dead_letter/invalid_answer")["request"],
    "workflow_id": SCRIPT_TEXT,
    "context": {"instructions": f"{SAID} {SCRIPT_TEXT}"},
    "labels": {SCRIPT_TEXT: SCRIPT_TEXT},
}
MODEL = {
    "profile": SCRIPT_TEXT,
    "provider": SCRIPT_TEXT,
    "model": SCRIPT_TEXT,
    "dialect": SCRIPT_TEXT,
}


def records() -> list[Stored]:
    """A workflow and its letter, with scripts in every text, and content in every place for it."""
    prior = [{"attempt": 1, "failure": FAILURE, "answer": {SAID: SCRIPT_TEXT}}]
    raw = {
        **body_of("dead_letter/undecodable")["raw"],
        "base64": base64.b64encode(f"{SAID} {SCRIPT_TEXT}".encode()).decode(),
    }
    return [
        stored(
            "request/minimal",
            workflow_id=SCRIPT_TEXT,
            context={"instructions": f"{SAID} {SCRIPT_TEXT}"},
        ),
        stored(
            "attempt/retry",
            workflow_id=SCRIPT_TEXT,
            failure=FAILURE,
            model=MODEL,
            worker=SCRIPT_TEXT,
        ),
        stored(
            "attempt/refusal",
            offset=1,
            workflow_id=SCRIPT_TEXT,
            failure={"kind": "refused", "reason": f"{SAID} {SCRIPT_TEXT}"},
        ),
        stored(
            "refusal/by_model",
            workflow_id=SCRIPT_TEXT,
            reason=f"{SAID} {SCRIPT_TEXT}",
            answer={SAID: SCRIPT_TEXT},
        ),
        stored("result/text", workflow_id=SCRIPT_TEXT, answer=f"{SAID} {SCRIPT_TEXT}", model=MODEL),
        stored(
            "dead_letter/invalid_answer",
            dead_letter_id=DEAD_LETTER,
            workflow_id=SCRIPT_TEXT,
            request=ASKED,
            cause={"kind": "invalid_answer", "failure": FAILURE},
            prior=prior,
            labels={SCRIPT_TEXT: SCRIPT_TEXT},
        ),
        stored("dead_letter/undecodable", offset=1, dead_letter_id=RAW, raw=raw),
        stored(
            "replayed/edited",
            offset=2,
            dead_letter_id=DEAD_LETTER,
            workflow_id=SCRIPT_TEXT,
            by=SCRIPT_TEXT,
            reason=SCRIPT_TEXT,
            edit=[{"op": "replace", "path": "/context/instructions", "value": SAID}],
        ),
        stored("lane/lane", worker=SCRIPT_TEXT),
        stored(
            "compared/differs",
            workflow_id=SCRIPT_TEXT,
            recorded=asked_of(SAID),
            again=asked_of(f"another {SAID}"),
            fields=[{"path": f"/{SAID} {SCRIPT_TEXT}", "equal": False}],
            judged={"reason": f"{SAID} {SCRIPT_TEXT}", "swapped": False, "by": asked_of(SAID)},
        ),
    ]


def asked_of(answer: str) -> dict[str, object]:
    """A side of a comparison."""
    return {
        "outcome": "answered",
        "profile": SCRIPT_TEXT,
        "model": SCRIPT_TEXT,
        "why": f"{SAID} {SCRIPT_TEXT}",
        "answer": {answer: SCRIPT_TEXT},
    }


PAGES = {
    "/": {},
    "/profiles": {},
    "/profiles/comparisons": {},
    "/profiles/comparison": {"name": "new-2026-11-22"},
    "/money": {},
    "/lanes": {},
    "/actions": {},
    "/letters": {"by": "label:x"},
    "/letters/list": {"status": "any"},
    "/letters/one": {"id": DEAD_LETTER},
    "/letters/one#raw": {"id": RAW},
    "/workflow": {"id": SCRIPT_TEXT},
    "/tail": {"workflow": SCRIPT_TEXT},
}


async def text_of(here: Site, path: str, query: dict[str, str], token: str) -> str:
    cookie = await here.log_in(token)
    async with here.client.get(
        here.url + path.partition("#")[0],
        params=query,
        headers={"Cookie": f"answerbus_console={cookie}"},
    ) as response:
        assert response.status == 200, await response.text()
        return await response.text()


@pytest.mark.parametrize(("path", "query"), PAGES.items(), ids=PAGES)
@pytest.mark.parametrize("token", [OPERATOR, VIEWER])
async def test_what_stands_in_records_stays_text(
    path: str, query: dict[str, str], token: str
) -> None:
    async with site(*records()) as here:
        text = await text_of(here, path, query, token)

    # Scripts are ours, by their address, and no handler, style or svg with either.
    scripts = re.findall(r"<script[^>]*>", text)
    assert all(
        re.fullmatch(r'<script src="/static/[a-z]+\.js\?v=\w{16}" defer>', script)
        for script in scripts
    )
    assert "<svg onload" not in text
    assert not re.search(r"<[^>]*\s(on\w+|style)=[^>]*>", re.sub(r'"[^"]*"', '""', text))


@pytest.mark.parametrize(("path", "query"), PAGES.items(), ids=PAGES)
async def test_viewers_do_not_see_what_was_asked_and_answered(
    path: str, query: dict[str, str]
) -> None:
    async with site(*records()) as here:
        assert SAID not in await text_of(here, path, query, VIEWER)


@pytest.mark.parametrize(
    "path", ["/letters/one", "/letters/one#raw", "/workflow", "/profiles/comparison"]
)
async def test_operators_do(path: str) -> None:
    async with site(*records()) as here:
        text = await text_of(here, path, PAGES[path], OPERATOR)

    assert SAID in text
    assert escape("<script>alert(1)</script>") in text


async def test_a_page_says_how_far_the_topics_are_read() -> None:
    async with site() as here:
        progress = here.context.feed.progress
        progress.caught_up, progress.total, progress.left = False, 1_000, 570

        text = await text_of(here, "/", {}, VIEWER)

    assert "43 %" in text


async def test_dead_letters_are_grouped_listed_and_counted() -> None:
    many = [
        stored("dead_letter/unknown_profile", NOON_MS, n, dead_letter_id=f"lost-{n}.dead-letter")
        for n in range(120)
    ]
    async with site(*many, stored("dead_letter/unknown_schema", offset=500)) as here:
        groups = await text_of(here, "/letters", {}, OPERATOR)
        first = await text_of(here, "/letters/list", {"cause": "unknown_profile"}, OPERATOR)
        last = await text_of(
            here, "/letters/list", {"cause": "unknown_profile", "page": "2"}, OPERATOR
        )
        none = await text_of(here, "/letters/list", {"cause": "crashed_worker"}, OPERATOR)

    assert "<b>121</b> dead letters" in groups
    assert groups.index("unknown profile") < groups.index("unknown schema")
    assert "Page 1 of 3" in first
    assert first.count('<input type="checkbox" name="id"') == 50
    assert last.count('<input type="checkbox" name="id"') == 20
    assert "No dead letters." in none


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/letters/one?id=nobody", 404),
        ("/workflow?id=nobody", 404),
        ("/letters/jobs/7", 404),
        ("/nothing", 404),
        ("/letters/list?page=99999999999999999999", 200),
        ("/letters/list?page=-1", 200),
        ("/letters?by=nonsense", 200),
        ("/letters?none=label%3Ax&none=nonsense", 400),
        ("/letters?status=nonsense", 400),
        ("/?minutes=1000000000000", 400),
        ("/?range=1000000000000m", 400),
        ("/?from=1h&range=1h", 400),
        ("/profiles?from=2h&to=1h", 200),
        ("/money?range=today", 200),
        ("/lanes?range=1h", 400),
        ("/tail?kind=nonsense", 400),
        ("/workflow?id=", 404),
        ("/workflow", 404),
    ],
)
async def test_malformed_addresses_are_answered_with_a_page(path: str, status: int) -> None:
    async with site(*records()) as here:
        response = await here.get(path, await here.log_in(OPERATOR))

        assert response.status == status
        assert "<h1>" in await response.text()


async def test_what_fails_is_said_without_what_it_failed_with(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(*records()) as here:

        def fail() -> None:
            raise ValueError(SAID)

        monkeypatch.setattr(here.context.feed.state, "tail", fail)
        response = await here.get("/tail", await here.log_in(OPERATOR))

        assert response.status == 500
        assert SAID not in await response.text()
        assert "ValueError" in await response.text()
