"""Writes docs/runbooks as pages of the console, so that alerts can link them: `make chart`."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

RUNBOOKS = Path("docs/runbooks")
PAGES = Path("services/console/templates/runbooks")
_OTHER = re.compile(r"([a-z-]+)\.md(#.*)?")
_PAGE = """{{% extends "frame.html" %}}
{{% block title %}}{title}{{% endblock %}}
{{% block main %}}
<article class="runbook">
{{% raw %}}
{body}{{% endraw %}}
</article>
{{% endblock %}}
"""


def runbook_pages() -> Mapping[Path, str]:
    """A template for each runbook; links to pages that the console does not have become text."""
    return {
        PAGES / f"{path.stem}.html": _page(path.read_text(encoding="utf-8"))
        for path in sorted(RUNBOOKS.glob("*.md"))
    }


def _page(text: str) -> str:
    heading, _, rest = text.partition("\n")
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(rest)
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", _anchor(content.content))
    for token in tokens:
        if token.children is not None:
            token.children = list(_linked(token.children))
    body = markdown.renderer.render(tokens, markdown.options, {})
    scrolled = body.replace("<pre>", '<pre tabindex="0">')
    return _PAGE.format(title=heading.removeprefix("# "), body=scrolled)


def _anchor(heading: str) -> str:
    """As GitHub makes it, so that the same links lead there."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _linked(tokens: list[Token]) -> Iterator[Token]:
    kept = True
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrGet("href"))
            if other := _OTHER.fullmatch(target):
                target = f"/runbooks/{other[1]}{other[2] or ''}"
                token.attrSet("href", target)
            kept = target.startswith(("/runbooks/", "#", "https:"))
        if kept or not token.type.startswith("link_"):
            yield token
