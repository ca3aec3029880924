"""Runbooks as pages of the console: as they are in docs, and without a dead link."""

import re

from infra.runbook_pages import PAGES, runbook_pages
from tests.infra.chart import ROOT


def test_the_pages_are_those_of_docs() -> None:
    """`make chart` writes them again."""
    pages = runbook_pages()

    assert {PAGES / path.name for path in (ROOT / PAGES).iterdir()} == set(pages)
    for path, text in pages.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path


def test_every_link_leads_to_a_page_or_a_heading() -> None:
    places = {
        f"/runbooks/{path.stem}": {"", *re.findall(r' id="([^"]+)"', text)}
        for path, text in runbook_pages().items()
    }
    for path, text in runbook_pages().items():
        for page, _, anchor in (
            link.partition("#") for link in re.findall(r'href="(?!https:)([^"]+)"', text)
        ):
            assert anchor in places[page or f"/runbooks/{path.stem}"], (path, page, anchor)


def test_what_runs_is_no_template() -> None:
    for text in runbook_pages().values():
        (body,) = re.findall(r"{% raw %}(.*){% endraw %}", text, re.DOTALL)
        assert "{%" not in body
        assert "<script" not in body
