"""Addresses of pages with their parameters; pure."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode


def address(path: str, pairs: Iterable[tuple[str, str]] = ()) -> str:
    """A path, and what is behind its question mark."""
    query = urlencode(list(pairs))
    return f"{path}?{query}" if query else path


def profile_place(name: str) -> str:
    """The id of a profile's part of its page; an untrusted attempt may name any text."""
    return f"profile-{quote(name, safe='')}"


def profile_href(name: str) -> str:
    return f"/profiles#{profile_place(name)}"
