"""What no page has in it, from no record: signs that no one sees."""

import base64
import json
from dataclasses import replace
from html import unescape

import pytest

from services.console.access.tokens import Tokens
from services.console.pages.render import environment, exact
from services.operators.records.stored import Stored
from tests.function_calls import functions_called
from tests.unit.console.context import OPERATOR, VIEWER, site
from tests.unit.console.pages.test_pages import (
    DEAD_LETTER,
    PAGES,
    SAID,
    SCRIPT_TEXT,
    records,
    text_of,
)
from tests.unit.operators.stored_examples import NOON_MS, stored

UNSEEN = "\u202e\u2066\u200b\U000e0041\ufe0f\u2028\x9b31m\x1b[2J\x85\u3164"


def with_unseen(record: Stored) -> Stored:
    value = record.value or b""
    status, body = (json.dumps(text)[1:-1].encode() for text in (SCRIPT_TEXT, UNSEEN))
    raw, sent = (base64.b64encode(f"{SAID} {text}".encode()) for text in (SCRIPT_TEXT, UNSEEN))
    return replace(record, value=value.replace(status, body).replace(raw, sent))


@pytest.mark.parametrize(("path", "query"), PAGES.items(), ids=PAGES)
@pytest.mark.parametrize("token", [OPERATOR, VIEWER])
async def test_a_page_shows_them_written_out(path: str, query: dict[str, str], token: str) -> None:
    query = {name: value.replace(SCRIPT_TEXT, UNSEEN) for name, value in query.items()}
    async with site(*map(with_unseen, records())) as here:
        text = await text_of(here, path, query, token)

    found = {sign for sign in UNSEEN if sign in text and not sign.isprintable()}
    assert found == set()
    assert "\ufe0f" not in text
    assert "\u3164" not in text
    if path not in ("/", "/letters") and (path, token) != ("/letters/one#raw", VIEWER):
        assert r"\u202e" in text


async def test_what_a_form_sends_back_is_the_value_itself() -> None:
    dead_letter_id = DEAD_LETTER.replace(SCRIPT_TEXT, UNSEEN)
    async with site(*map(with_unseen, records())) as here:
        cookie = await here.log_in(OPERATOR)
        response = await here.get("/letters/list?status=any", cookie)
        text = await response.text()

    assert str(exact(dead_letter_id)) in text


async def test_figures_of_money_for_programs_have_them_written_out() -> None:
    name = "w-\u202e\u200b\U000e0041\u3164\x9b"
    record = stored("attempt/result", NOON_MS - 1, workflow_id=name)
    async with site(record) as here:
        text = await (await here.get("/money.json", await here.log_in(OPERATOR))).text()

    assert text.isascii()
    assert name in [one["name"] for one in json.loads(text)["workflows"]]


def test_a_long_value_with_one_of_them_is_not_looked_at_sign_by_sign() -> None:
    text = "\u202e" + "x" * 10_000

    assert functions_called(lambda: exact(text)) < 100


@pytest.mark.parametrize("text", ["", "plain", "\u202e<b>", "a\U000e0041\"'&"])
def test_a_browser_reads_the_exact_value(text: str) -> None:

    made = environment().from_string('<input value="{{ text|exact }}">{{ text }}')
    page = made.render(text=text)

    value, _, shown = page.removeprefix('<input value="').partition('">')
    assert unescape(value) == text
    assert not any(sign in page for sign in "\u202e\U000e0041")
    assert "<b>" not in shown


async def test_a_name_of_an_operator_is_shown_in_the_frame() -> None:
    async with site(tokens=Tokens(None, None, {"night@acme": OPERATOR})) as here:
        text = await text_of(here, "/", {}, OPERATOR)

    assert "night@acme, operator" in text
