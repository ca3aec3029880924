"""The parts of a page that change by themselves, cut out of its HTML; pure."""

import re
from collections.abc import Mapping

# Our templates escape all values, so that a tag in the text of a page is one of ours.
_LIVE = re.compile(r"<(?P<tag>[a-z]+)(?=[^>]*\sdata-live\b)[^>]*\sid=\"(?P<id>[\w-]+)\"[^>]*>")


def live_parts(html: str) -> Mapping[str, str]:
    """What stands within each element that has `data-live` and an id, by that id."""
    found, at = dict[str, str](), 0
    while opened := _LIVE.search(html, at):
        end = _end(html, opened["tag"], opened.end())
        found[opened["id"]] = html[opened.end() : end]
        at = end
    return found


def _end(html: str, tag: str, start: int) -> int:
    """Where the element ends whose content begins at `start`."""
    depth = 1
    for match in re.finditer(rf"<(?P<slash>/?){tag}\b", html[start:]):
        depth += -1 if match["slash"] else 1
        if depth == 0:
            return start + match.start()
    return len(html)
